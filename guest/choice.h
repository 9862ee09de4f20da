/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which functions account for most of the operations' time, found in rounds: from where the kernel is entered, each
 * round goes one call deeper, into those functions alone that together took SHARE_WANTED of the time.
 */
#ifndef CHOICE_H
#define CHOICE_H

#define SHARE_WANTED 0.9
#define MAX_CHOSEN 64

/* Where to begin. Returns the names, and how many in `number`. */
const char *const *choice_roots(int *number);

/*
 * From a trace, two calls deep, of what was chosen last (at first the roots) to what to trace next. Returns how many
 * functions that are, 0 when all is chosen, or -1 after reporting the error.
 */
int choice_narrow(const char *path);
const char *choice_next(int nr);

/* All that was chosen, over all rounds. */
int choice_number(void);
const char *choice_name(int nr);

#endif
