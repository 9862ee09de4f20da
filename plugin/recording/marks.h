/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent's marks (guest/protocol/recorder.h): hand over symbols, begin to record, show the agent, end and write. */
#ifndef MARKS_H
#define MARKS_H

void on_mark(unsigned int nr, void *userdata);

#endif
