/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LOAD_H
#define LOAD_H

/* Keep libbpf's warnings to ourselves from now on. The first is remembered: later ones follow from it. */
void bpf_capture_errors(void);
/* The first warning, or else what errno means. */
const char *bpf_error(void);

#endif
