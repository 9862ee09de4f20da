// SPDX-License-Identifier: GPL-2.0-or-later
/* What each CPU was executing whenever its perf event overflowed: counted by task and stack. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "oncpu_maps.h"
#include "stacks.bpf.h"

char LICENSE[] SEC("license") = "GPL";

volatile struct sampling sampling;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* and more where there are many CPUs: see the agent */
	__type(key, struct sample_key);
	__type(value, struct sample_value);
} samples SEC(".maps");

/* No other CPU touches a CPU's rows, and no sample comes while another is taken. */
SEC("perf_event")
int sample(void *ctx)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct sample_key key = { .cpu = bpf_get_smp_processor_id(), .pid = (__u32)task };
	struct sample_value *value, first = { .count = 1, .tgid = task >> 32 };

	if (!sampling.on)
		return 0;
	key.kernel_stack = kernel_stack_of(ctx, &sampling.lost);
	key.user_stack = key.pid ? user_stack_of(ctx, &sampling.lost_user_stacks) : -1;
	value = bpf_map_lookup_elem(&samples, &key);
	if (value) {
		value->count++;
		return 0;
	}
	bpf_get_current_comm(first.task, sizeof(first.task));
	if (bpf_map_update_elem(&samples, &key, &first, BPF_NOEXIST))
		__sync_fetch_and_add(&sampling.lost, 1);
	return 0;
}
