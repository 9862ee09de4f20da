/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls and results as text:
 *
 *	0 open a creat,excl	by process 0
 *	A 0 open b		one of the two calls that are made on two CPUs: A on the first, B on the second
 */
#ifndef CALL_TEXT_H
#define CALL_TEXT_H

#include <stdio.h>

#include "calls.h"

#define CALL_ERROR_BYTES 160

/* Read a call from a line, which is modified. Returns 0, or 1 with the reason in `error`. */
int call_read(struct call *call, char *line, char error[CALL_ERROR_BYTES]);

/* Inodes are numbered in the order in which results are printed, as i1, i2, ... */
struct inodes {
	unsigned int known;
	struct {
		uint64_t device, inode;
	} of[64];
};

void result_print(const struct call *call, const struct result *result, struct inodes *inodes, FILE *text);

#endif
