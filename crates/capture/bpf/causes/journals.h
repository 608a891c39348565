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

static inline u32 device_of(u64 super)
{
	u32 device = 0;
	read_kernel(&device, sizeof(device), &((struct super_block *)super)->s_dev);
	return device;
}

SEC("raw_tp/xfs_trans_commit")
int xfs_commit(u64 *arguments)
{
	u64 mount = value(arguments[0], TRANS_MOUNT, 8);
	u64 super = value(mount, MOUNT_SUPER, 8);
	struct block_device *bdev = 0;
	read_kernel(&bdev, sizeof(bdev), &((struct super_block *)super)->s_bdev);
	if (!is_ours_at(bdev))
		return 0;
	u32 device = device_of(super);
	u64 owner = cause(current_task(), 0);
	struct epoch *epoch = map_lookup(&epochs, &device);
	u64 number = 1;
	if (!epoch) {
		u64 log = value(mount, MOUNT_LOG, 8);
		u64 start = value(log, LOG_START, 8);
		struct epoch first = { 1, 0, start, start + value(log, LOG_SIZE, 4) };
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

SEC("raw_tp/xfs_trans_log_buf")
int xfs_log_buf(u64 *arguments)
{
	u64 buffer = value(arguments[0], ITEM_BUFFER, 8);
	u32 device = value(value(buffer, BUFFER_TARGET, 8), TARGET_DEVICE, 4);
	u64 owner = cause(current_task(), 0);
	if (owner & KERNEL_THREAD)
		return 0;
	struct place at = { SECTORS | device, value(buffer, BUFFER_SECTOR, 8) };
	struct owners new = { owner, 0, 1 };
	map_update(&pages, &at, &new, 0);
	return 0;
}

SEC("raw_tp/btrfs_transaction_commit")
int btrfs_commit(u64 *arguments)
{
	u32 device = device_of(value(arguments[0], BTRFS_SUPER, 8));
	struct epoch *epoch = map_lookup(&epochs, &device);
	if (epoch)
		epoch->number++;
	return 0;
}
