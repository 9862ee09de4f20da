/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SETTINGS_H
#define SETTINGS_H

struct job;

/* Write every setting's value to its path. Returns 0, or 1 after reporting the error. */
int apply_settings(const struct job *job);

/* What the files hold now; to write that back returns 0, or 1 after reporting what could not be. */
int remember_settings(const struct job *job);
int restore_settings(void);

#endif
