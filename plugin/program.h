/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorded part of a program: what all CPUs execute from MARK_BEGIN to MARK_END. It may be in several parts, between
 * which code is not instrumented.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define NO_SYSTEM_CALL UINT64_MAX

/* There is a new request (request.h), and no part has begun. */
void program_arm(void);

void program_begin(void);
void program_end(void);

/* The kernel is entered by a system call with that number; NO_SYSTEM_CALL: by one of another kind. */
void program_count_system_call(uint64_t number);

/* Write what was counted, as a JSON object, or null if no program was recorded. */
void program_write(FILE *out);

#endif
