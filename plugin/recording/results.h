/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes what was recorded into the recorder's folder: docs/contributing/recorder-protocol.md. */
#ifndef RESULTS_H
#define RESULTS_H

/* After the first file that cannot be written the rest is left out, and with it recording.json. */
void results_write(void);

#endif
