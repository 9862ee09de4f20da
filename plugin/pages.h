/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where pages of user memory were seen. A line of user memory is known by its physical address, which is the same for
 * all that share it; what it is called follows from its virtual one.
 */
#ifndef PAGES_H
#define PAGES_H

#include <stdint.h>
#include <stdio.h>

/* The user's address `virtual` is mapped to `physical`. */
void pages_note(uint64_t physical, uint64_t virtual);

/* How often a page found no room. */
uint64_t pages_lost(void);

/* Write, as CSV, each page, where it was seen first, and whether it was elsewhere too. Returns 0 or -1. */
int pages_write(FILE *out);

#endif
