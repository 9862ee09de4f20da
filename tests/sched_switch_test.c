// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs the BPF program of blocked time on this machine, with a stand-in for the kernel: a task that is woken while it is
 * still being switched out is chance. Its arguments say whether the tracepoint has the task's state (since 5.18), and
 * which it is. The task, pid 7, leaves its CPU in it, is woken at once, and comes back. Standard output: the state of each row.
 */
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In place of bpf/bpf_helpers.h and bpf/bpf_core_read.h */
#define __BPF_HELPERS__
#define __BPF_CORE_READ_H__
#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define bpf_core_field_exists(field) true
#define bpf_core_type_exists(type) has_state

#pragma GCC diagnostic ignored "-Wattributes"

static bool has_state;

static void *bpf_map_lookup_elem(void *map, const void *key);
static long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
static long bpf_map_delete_elem(void *map, const void *key);

static __u64 bpf_ktime_get_ns(void)
{
	static __u64 now;

	return ++now << 20;
}

static long bpf_get_stackid(void *ctx, void *map, __u64 flags)
{
	(void)ctx, (void)map, (void)flags;
	return 0;
}

static long bpf_probe_read_kernel_str(void *to, __u32 size, const void *from)
{
	memcpy(to, from, size);
	return size;
}

static __u64 bpf_get_current_pid_tgid(void)
{
	return 0;
}

#include "../bpf/blocked.bpf.c"

/* A map of one entry each. */

static struct departure departed;
static struct blocked_key row_key;
static struct blocked_value row;
static bool has_departed, has_row;

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	if (map == &departures)
		return has_departed ? &departed : NULL;
	return has_row && !memcmp(key, &row_key, sizeof(row_key)) ? &row : NULL;
}

static long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags)
{
	(void)flags;
	if (map == &departures) {
		departed = *(const struct departure *)value;
		has_departed = true;
	} else {
		row_key = *(const struct blocked_key *)key;
		row = *(const struct blocked_value *)value;
		has_row = true;
	}
	return 0;
}

static long bpf_map_delete_elem(void *map, const void *key)
{
	(void)map, (void)key;
	return 0;
}

int main(int argc, char **argv)
{
	struct task_struct sleeper = { .pid = 7, .tgid = 7, .comm = "sleeper" }, idle = { .comm = "swapper" };
	__u64 leaves[] = { false, (__u64)&sleeper, (__u64)&idle, 0 };
	__u64 comes_back[] = { false, (__u64)&idle, (__u64)&sleeper, 0 };

	if (argc != 3)
		return 1;
	leaves[3] = strtoul(argv[2], NULL, 0);
	has_state = !strcmp(argv[1], "since 5.18");
	counting.since = 1;
	sleeper.__state = 0x200; /* TASK_WAKING, where it was 1 a moment before */
	typed(leaves);
	typed(comes_back);
	if (has_row)
		printf("%u\n", row_key.state);
	return 0;
}
