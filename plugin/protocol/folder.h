/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The folder in which the recorder leaves its files: docs/contributing/recorder-protocol.md. */
#ifndef FOLDER_H
#define FOLDER_H

#include <stdio.h>

/* The folder must exist. Returns 0 or -1. */
int folder_init(const char *name);

/* A file in the folder, opened as fopen() does; NULL if it cannot be opened. */
FILE *folder_open(const char *name, const char *mode);

#endif
