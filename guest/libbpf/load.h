/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A BPF program that counts: loaded, attached to events, with memory that it shares with the agent. */
#ifndef LOAD_H
#define LOAD_H

#include <stddef.h>

struct bpf_link;
struct bpf_object;

/* Zero at first. */
struct bpf_run {
	struct bpf_object *object;
	struct bpf_link **links;
	int nr_links;
};

/* From now on keep libbpf's warnings to ourselves. The first is remembered: later ones follow from it. */
void bpf_capture_errors(void);
/* The first warning, or else the text of errno. */
const char *bpf_error(void);

struct bpf_map *bpf_run_map(const struct bpf_run *run, const char *name);
int bpf_run_map_fd(const struct bpf_run *run, const char *name);
/* The program's global variables; NULL with errno. */
void *bpf_run_share(const struct bpf_run *run, size_t bytes);
/* Keep a link until bpf_run_detach(). Returns 0, or -1 if it is NULL. */
int bpf_run_attach(struct bpf_run *run, struct bpf_link *link);
void bpf_run_detach(struct bpf_run *run);

#endif
