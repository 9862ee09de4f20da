/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many small tests, one after the other, each recorded alone: what the calls of a test do, each on a CPU of its own,
 * between the agent's marks. docs/protocol.md has what comes of it.
 */
#ifndef TESTS_H
#define TESTS_H

#include <stdint.h>

#include "../guest/recorder.h"

/* Recording begins, and ends. */
void tests_arm(void);
void tests_disarm(void);

/* MARK_TEST to MARK_TEST_END; others are nothing. */
void tests_on_mark(enum recorder_mark mark, uint64_t number);

#endif
