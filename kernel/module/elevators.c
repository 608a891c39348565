// SPDX-License-Identifier: GPL-2.0-only
/* The elevators that this module registers, and their names. */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "queue.h"

static char *custom = "stream(deadline)";
module_param(custom, charp, 0444);
MODULE_PARM_DESC(custom, "the policy of dwell-custom, as `dwell schedulers` names it: cooperative{antic_expire=10ms}");

static bool fault_injection;
module_param(fault_injection, bool, 0444);
MODULE_PARM_DESC(fault_injection, "root may make a policy fail through iosched/inject (tests)");

/*
 * The kernel compares at most 15 characters of what is written to queue/scheduler. So a longer name of the policy is an alias
 * of 15 characters: `echo dwell-anticipatory` selects dwell-as.
 */
#define ELEVATOR(elevator, alias, policy) \
	{ .type = { .elevator_name = elevator, .elevator_alias = alias, .elevator_owner = THIS_MODULE }, .spec = policy }

static struct dwell_elevator elevators[] = {
	ELEVATOR("dwell-noop", NULL, "noop"),
	ELEVATOR("dwell-deadline", NULL, "deadline"),
	ELEVATOR("dwell-stream", NULL, "stream(deadline)"),
	ELEVATOR("dwell-as", "dwell-anticipat", "anticipatory"),
	ELEVATOR("dwell-coop", "dwell-cooperati", "cooperative"),
	ELEVATOR("dwell-cfq", NULL, "cfq-2.6.32"),
	ELEVATOR("dwell-bfq", NULL, "bfq"),
	ELEVATOR("dwell-custom", NULL, NULL),
};

const char *dwell_spec_of(const struct dwell_elevator *elevator)
{
	return elevator->spec ?: custom;
}

bool dwell_may_inject(void)
{
	return fault_injection;
}

/* Whether the policy limits how many requests a submitter has (`may_queue`). */
static bool is_limiting(const char *spec)
{
	return !strncmp(spec, "anticipatory", 12) || !strncmp(spec, "cooperative", 11) || !strncmp(spec, "cfq", 3) ||
	       !strncmp(spec, "bfq", 3) || !strncmp(spec, "kyber", 5) || strstr(spec, "mq-deadline");
}

static void unregister(int count)
{
	while (count--) {
		elv_unregister(&elevators[count].type);
		dwell_free_attributes(elevators[count].attributes);
	}
}

static int __init dwell_module_init(void)
{
	int i, error;

	for (i = 0; i < ARRAY_SIZE(elevators); i++) {
		struct dwell_elevator *elevator = &elevators[i];
		const char *spec = dwell_spec_of(elevator);

		elevator->attributes = dwell_make_attributes(elevator);
		if (IS_ERR(elevator->attributes)) {
			unregister(i);
			return PTR_ERR(elevator->attributes);
		}
		elevator->type.ops = is_limiting(spec) ? dwell_ops_limiting : dwell_ops;
		elevator->type.elevator_attrs = elevator->attributes;
		if (!elevator->ignores_processes) {
			elevator->type.icq_size = sizeof(struct dwell_icq);
			elevator->type.icq_align = __alignof__(struct dwell_icq);
		}
		error = elv_register(&elevator->type);
		if (error) {
			dwell_free_attributes(elevator->attributes);
			unregister(i);
			return error;
		}
	}
	return 0;
}

static void __exit dwell_module_exit(void)
{
	unregister(ARRAY_SIZE(elevators));
}

module_init(dwell_module_init);
module_exit(dwell_module_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_AUTHOR("The Dwell developers");
MODULE_DESCRIPTION("Dwell's I/O schedulers: stream, cooperative, anticipatory, cfq and others");
/* `echo NAME > queue/scheduler` makes the kernel load NAME-iosched. */
MODULE_ALIAS("dwell-noop-iosched");
MODULE_ALIAS("dwell-deadline-iosched");
MODULE_ALIAS("dwell-stream-iosched");
MODULE_ALIAS("dwell-as-iosched");
MODULE_ALIAS("dwell-anticipat-iosched");
MODULE_ALIAS("dwell-coop-iosched");
MODULE_ALIAS("dwell-cooperati-iosched");
MODULE_ALIAS("dwell-cfq-iosched");
MODULE_ALIAS("dwell-bfq-iosched");
MODULE_ALIAS("dwell-custom-iosched");
