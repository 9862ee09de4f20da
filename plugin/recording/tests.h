/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many small tests, one after the other, each recorded alone. The calls of a test run on different CPUs, between the
 * agent's marks. docs/contributing/recorder-protocol.md describes the output.
 */
#ifndef TESTS_H
#define TESTS_H

#include <stdint.h>

#include "../guest/protocol/recorder.h"

/* Recording begins, and ends. */
void tests_arm(void);
void tests_disarm(void);

/* MARK_TEST to MARK_TEST_END; other marks are ignored. */
void tests_on_mark(enum recorder_mark mark, uint64_t number);

#endif
