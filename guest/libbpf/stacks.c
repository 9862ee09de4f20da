// SPDX-License-Identifier: GPL-2.0-or-later
#include "stacks.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <string.h>

static int make_room(struct bpf_object *object, const char *name, unsigned int times)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);

	return bpf_map__set_max_entries(map, times ? times * bpf_map__max_entries(map) : 1);
}

int stacks_make_room(struct bpf_object *object, unsigned int kernel_times, unsigned int user_times)
{
	return make_room(object, "stacks", kernel_times) || make_room(object, "more_stacks", kernel_times) ||
	       make_room(object, "user_stacks", user_times);
}

static int read_stack(struct bpf_object *object, const char *map, int stack, uint64_t frames[MOST_FRAMES])
{
	uint32_t id = stack & ~SECOND_MAP;
	int depth = 0;

	memset(frames, 0, MOST_FRAMES * sizeof(*frames));
	if (stack < 0 || bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(object, map), &id, frames))
		return 0;
	/* POWER has zeroes among the first, for what was no address of a function; and zeroes follow the last. */
	for (int i = 0; i < MOST_FRAMES; i++)
		if (frames[i])
			frames[depth++] = frames[i];
	return depth;
}

int stacks_kernel(struct bpf_object *object, int stack, uint64_t frames[MOST_FRAMES])
{
	return read_stack(object, stack & SECOND_MAP ? "more_stacks" : "stacks", stack, frames);
}

int stacks_user(struct bpf_object *object, int stack, uint64_t frames[MOST_FRAMES])
{
	return read_stack(object, "user_stacks", stack, frames);
}
