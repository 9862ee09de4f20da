// SPDX-License-Identifier: GPL-2.0-or-later
#include "load.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static char first_warning[256];

static int keep_first_warning(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level == LIBBPF_WARN && !first_warning[0]) {
		vsnprintf(first_warning, sizeof(first_warning), format, args);
		first_warning[strcspn(first_warning, "\n")] = 0;
	}
	return 0;
}

void bpf_capture_errors(void)
{
	first_warning[0] = 0;
	libbpf_set_print(keep_first_warning);
}

const char *bpf_error(void)
{
	return first_warning[0] ? first_warning : strerror(errno);
}

struct bpf_map *bpf_run_map(const struct bpf_run *run, const char *name)
{
	return bpf_object__find_map_by_name(run->object, name);
}

int bpf_run_map_fd(const struct bpf_run *run, const char *name)
{
	return bpf_map__fd(bpf_run_map(run, name));
}

void *bpf_run_share(const struct bpf_run *run, size_t bytes)
{
	void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_run_map_fd(run, ".bss"), 0);

	return shared == MAP_FAILED ? NULL : shared;
}

int bpf_run_attach(struct bpf_run *run, struct bpf_link *link)
{
	struct bpf_link **links = link ? realloc(run->links, (run->nr_links + 1) * sizeof(*links)) : NULL;

	if (!links)
		return -1;
	run->links = links;
	run->links[run->nr_links++] = link;
	return 0;
}

void bpf_run_detach(struct bpf_run *run)
{
	while (run->nr_links)
		bpf_link__destroy(run->links[--run->nr_links]);
	free(run->links);
	run->links = NULL;
}
