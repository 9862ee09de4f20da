/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which part of a command is recorded: all of it; from and to what it prints; after and for a time; or what the program
 * itself marks (guest/mark/).
 */
#ifndef RECORDED_PART_H
#define RECORDED_PART_H

#include <stddef.h>

struct job;

/* Have the recorder ready, which sees nothing of this process. Returns 0, or 1 after reporting the error. */
int part_prepare(const struct job *job);

/* What the command's process does just before it is executed; NULL: nothing. */
void (*part_before(const struct job *job))(void);

/* Whether what the command prints says when the part begins or ends. */
int part_follows_output(const struct job *job);

/* The command runs. */
void part_started(const struct job *job);

/* It has printed these bytes, on its first or second output; none: it prints no more. */
void part_sees(const struct job *job, int output, const char *bytes, size_t length);

/* In how many ms part_looks() is to be called; at most a second. */
int part_ms_to_look(const struct job *job);

/* Begin or end the part if it is time. Returns whether it has ended, while the command may run on. */
int part_looks(const struct job *job);

/*
 * The command has ended, or is not waited for any more: write the recording. Returns 0, or 1 after reporting that what
 * the part begins or ends with never came; `output` is what it printed.
 */
int part_end(const struct job *job, int output);

#endif
