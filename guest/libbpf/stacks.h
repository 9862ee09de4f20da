/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The stacks that a program with bpf/stacks.bpf.h has kept. */
#ifndef STACKS_H
#define STACKS_H

#include <stdint.h>

#include "../../bpf/stacks_maps.h"

#define LOST_USER_STACKS "stacks in user space, for which there was no room"

struct bpf_object;

/* Before the object is loaded: room for so many times as many kernel stacks, and user stacks; 0: for none. */
int stacks_make_room(struct bpf_object *object, unsigned int kernel_times, unsigned int user_times);

/* The addresses of a stack, innermost first; returns how many. None has a negative number. */
int stacks_kernel(struct bpf_object *object, int stack, uint64_t frames[MOST_FRAMES]);
int stacks_user(struct bpf_object *object, int stack, uint64_t frames[MOST_FRAMES]);

#endif
