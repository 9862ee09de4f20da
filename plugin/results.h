/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the recorder leaves in its folder: docs/protocol.md. */
#ifndef RESULTS_H
#define RESULTS_H

#include <stdio.h>

/* The folder must be there. Returns 0 or -1. */
int results_init(const char *folder);

/* A file in it, or NULL. */
FILE *results_open(const char *name, const char *mode);

/* Write all that was recorded. What cannot be written is left out, and recording.json with it. */
void results_write(void);

#endif
