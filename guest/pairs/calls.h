/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The system calls of the matrix: read from text, made, and what came of them as text. */
#ifndef CALLS_H
#define CALLS_H

#define CALL_TEXT_BYTES 128

struct call {
	int process; /* 0 or 1 */
	char text[CALL_TEXT_BYTES]; /* "open a creat" */
	char expected[CALL_TEXT_BYTES]; /* "3" */
};

/* Make it, and say what came of it. */
void call_make(const struct call *call, char result[CALL_TEXT_BYTES]);
void call_prepare(void);
void calls_undo(void);

#endif
