// SPDX-License-Identifier: GPL-2.0-only
//
// Hooks of transactions: their accounts, and their commits.

// The start of jbd2's handle_t and transaction_t, in all kernels since 2.6.28.
struct handle {
	u64 transaction;
};
struct jbd2_transaction {
	u64 journal;
	u32 number;
};

static inline u32 number_of(u64 transaction)
{
	u32 number = 0;
	read_kernel(&number, sizeof(number), &((struct jbd2_transaction *)transaction)->number);
	return number;
}

SEC("raw_tp/jbd2_handle_stats")
int handle_stats(u64 *arguments)
{
	u32 blocks = arguments[7];
	struct task_struct *task = current_task();
	u64 whose = transaction(arguments[0], arguments[1]);
	// A commit has the address of its transaction only.
	u64 address = 0;
	read_kernel(&address, sizeof(address), &((struct handle *)task->journal_info)->transaction);
	u64 *known = map_lookup(&transactions, &address);
	if (address && (!known || *known != whose) && number_of(address) == (u32)arguments[1])
		map_update(&transactions, &address, &whose, 0);
	u64 owner = cause(task, 0);
	// Kernel threads get no share of the transaction.
	if (owner & KERNEL_THREAD)
		return 0;
	share(whose, owner, blocks + 1);
	return 0;
}

SEC("raw_tp/jbd2_start_commit")
int start_commit(u64 *arguments)
{
	u64 address = arguments[1];
	u32 pid = current_task()->pid;
	u64 *known = map_lookup(&transactions, &address);
	if (!known || (*known & 0x7fffffff) != (number_of(address) & 0x7fffffff)) {
		map_delete(&commits, &pid);
		return 0;
	}
	u64 whose = *known;
	map_update(&commits, &pid, &whose, 0);
	return 0;
}

SEC("tp_btf/xfs_trans_commit")
int xfs_commit(u64 *arguments)
{
	struct xfs_mount *mount = ((struct xfs_trans *)arguments[0])->t_mountp;
	struct super_block *super = mount->m_super;
	if (!is_ours(super->s_bdev))
		return 0;
	u32 device = super->s_dev;
	u64 owner = cause(current_task(), 0);
	struct epoch *epoch = map_lookup(&epochs, &device);
	u64 number = 1;
	if (!epoch) {
		struct xlog *log = mount->m_log;
		u64 start = log->l_logBBstart;
		struct epoch first = { 1, 0, start, start + log->l_logBBsize };
		map_update(&epochs, &device, &first, 0);
	} else {
		if (owner & KERNEL_THREAD)
			return 0;
		if (epoch->written == epoch->number)
			epoch->number++;
		number = epoch->number;
	}
	if (!(owner & KERNEL_THREAD))
		share(transaction(device, number), owner, 1);
	return 0;
}

SEC("tp_btf/xfs_trans_log_buf")
int xfs_log_buf(u64 *arguments)
{
	struct xfs_buf *buffer = ((struct xfs_buf_log_item *)arguments[0])->bli_buf;
	u32 device = buffer->b_target->bt_dev;
	u64 owner = cause(current_task(), 0);
	if (owner & KERNEL_THREAD)
		return 0;
	struct place at = { SECTORS | device, buffer->b_rhash_key };
	struct owners new = { owner, 0, 1 };
	map_update(&pages, &at, &new, 0);
	return 0;
}

SEC("tp_btf/btrfs_transaction_commit")
int btrfs_commit(u64 *arguments)
{
	struct super_block *super = ((struct btrfs_fs_info *)arguments[0])->sb;
	u32 device = super->s_dev;
	struct epoch *epoch = map_lookup(&epochs, &device);
	if (epoch)
		epoch->number++;
	return 0;
}
