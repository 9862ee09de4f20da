// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How long tasks were off the CPU, where, and why: added up in the kernel, a row for each task, stack and state.
 *
 * A task that leaves its CPU writes down when, from where and in which state; when it comes back, the time since
 * is added to its row. Counting is switched on and off from user space: a time counts if all of it lies after the
 * moment at which counting was last switched on.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "blocked_maps.h"

#define PF_KTHREAD 0x00200000

char LICENSE[] SEC("license") = "GPL";

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	unsigned int __state;
	char comm[TASK_NAME_BYTES];
} __attribute__((preserve_access_index));

/* Before 5.14. */
struct task_struct___before {
	volatile long state;
} __attribute__((preserve_access_index));

const volatile struct blocked_filter filter;
volatile struct blocked_count counting;

/*
 * Invariant: what belongs to a task is written only while the scheduler switches it out or in, which never
 * happens to one task on two CPUs at once. So nothing below needs an atomic operation but `lost`.
 */
struct departure {
	__u64 when;
	int kernel_stack, user_stack;
	__u32 state;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct departure);
} departures SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct blocked_key);
	__type(value, struct blocked_value);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 4096);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MOST_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1024);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MOST_FRAMES * sizeof(__u64));
} more_stacks SEC(".maps");

static __u32 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((struct task_struct___before *)task)->state;
}

static int is_wanted(struct task_struct *task, __u32 pid)
{
	if (filter.pid && pid != filter.pid)
		return 0;
	if (filter.tgid && (__u32)task->tgid != filter.tgid)
		return 0;
	return pid != filter.left_out[0] && pid != filter.left_out[1];
}

/* A stack's place in the map is its hash: where another has it already, the second map has one. */
static int stack_of(void *ctx, __u64 flags)
{
	int stack = bpf_get_stackid(ctx, &stacks, flags);

	if (stack != -17 /* EEXIST */)
		return stack;
	stack = bpf_get_stackid(ctx, &more_stacks, flags);
	if (stack >= 0)
		return stack | SECOND_MAP;
	__sync_fetch_and_add(&counting.lost, 1);
	return stack;
}

static void left(void *ctx, struct task_struct *task, __u32 pid, int was_preempted, __u64 now)
{
	__u32 state = was_preempted ? 0 : state_of(task);
	struct departure *departure;

	if (state & STATE_DEAD) {
		bpf_map_delete_elem(&departures, &pid);
		return;
	}
	if (!is_wanted(task, pid))
		return;
	state &= state & STATE_NOLOAD ?: STATE_REPORTED;
	departure = bpf_map_lookup_elem(&departures, &pid);
	if (filter.states && !((state ?: STATE_RUNNING) & filter.states)) {
		if (departure)
			departure->when = 0;
		return;
	}
	if (!departure) {
		struct departure none = {};

		bpf_map_update_elem(&departures, &pid, &none, BPF_ANY);
		departure = bpf_map_lookup_elem(&departures, &pid);
		if (!departure) {
			__sync_fetch_and_add(&counting.lost, 1);
			return;
		}
	}
	departure->state = state;
	departure->kernel_stack = stack_of(ctx, 0);
	departure->user_stack = -1;
	if (filter.user_stacks && !(task->flags & PF_KTHREAD))
		departure->user_stack = stack_of(ctx, BPF_F_USER_STACK);
	departure->when = now;
}

static __u32 bucket_of(__u64 ns)
{
	__u32 bucket = 0;

	ns >>= FIRST_BUCKET_BITS;
	if (ns >> 16) {
		ns >>= 16;
		bucket = 16;
	}
	if (ns >> 8) {
		ns >>= 8;
		bucket += 8;
	}
	if (ns >> 4) {
		ns >>= 4;
		bucket += 4;
	}
	if (ns >> 2) {
		ns >>= 2;
		bucket += 2;
	}
	bucket += ns >= 2 ? 2 : ns;
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static struct blocked_value *new_row(const struct blocked_key *key, struct task_struct *task)
{
	struct blocked_value value = {
		.tgid = task->tgid,
		.is_kthread = !!(task->flags & PF_KTHREAD),
	};

	bpf_probe_read_kernel_str(value.task, sizeof(value.task), task->comm);
	bpf_map_update_elem(&rows, key, &value, BPF_NOEXIST);
	return bpf_map_lookup_elem(&rows, key);
}

static void came_back(struct task_struct *task, __u32 pid, __u64 since, __u64 now)
{
	struct departure *departure = bpf_map_lookup_elem(&departures, &pid);
	struct blocked_key key = { .pid = pid };
	struct blocked_value *row;
	__u64 ns;

	if (!departure || departure->when < since)
		return;
	ns = now - departure->when;
	departure->when = 0;
	if (ns < filter.min_ns)
		return;
	key.kernel_stack = departure->kernel_stack;
	key.user_stack = departure->user_stack;
	key.state = departure->state;
	row = bpf_map_lookup_elem(&rows, &key);
	if (!row)
		row = new_row(&key, task);
	if (!row) {
		__sync_fetch_and_add(&counting.lost, 1);
		return;
	}
	row->count++;
	row->total_ns += ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	row->histogram[bucket_of(ns)]++;
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 since = counting.since, now;
	__u32 from, to;

	if (!since)
		return 0;
	/* All idle tasks have the number 0, and wait for nothing. */
	from = prev->pid;
	to = next->pid;
	now = bpf_ktime_get_ns();
	if (from)
		left(ctx, prev, from, !!ctx[0], now);
	if (to)
		came_back(next, to, since, now);
	return 0;
}
