/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LOAD_H
#define LOAD_H

/* Hear libbpf's complaints from now on. The first is kept: later ones follow from it. */
void bpf_listen(void);
/* What it said, or else what errno says. */
const char *bpf_complaint(void);

#endif
