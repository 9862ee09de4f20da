// SPDX-License-Identifier: GPL-2.0-or-later
/* What a job asks: some of its numbers, and every text; or what is wrong with it. */
#include <stdlib.h>

#include "protocol/job.h"

static void print_all(FILE *rows, const char *what, char *const *texts, unsigned long number)
{
	for (unsigned long i = 0; i < number; i++) {
		fprintf(rows, "%s %s\n", what, texts[i] ? texts[i] : "");
		free(texts[i]);
	}
}

void parse(FILE *text, FILE *rows)
{
	char error[JOB_ERROR_BYTES];
	struct job job;

	if (job_read(&job, text, error))
		fprintf(rows, "error: %s\n", error);
	else
		fprintf(rows, "tasks %lu, threads %d, record %lu, operations %lu, patience %s\n", job.tasks, job.threads,
			job.record, job.operations, job_patience(&job));
	print_all(rows, "set", job.settings, job.nr_settings);
	print_all(rows, "function", job.functions, job.nr_functions);
	print_all(rows, "word", job.command.all, job.command.nr);
	for (unsigned long i = 0; i < job.nr_services; i++) {
		print_all(rows, "service_word", job.services[i].words.all, job.services[i].words.nr);
		print_all(rows, "ready_word", job.services[i].ready.all, job.services[i].ready.nr);
	}
	print_all(rows, "env", job.variables, job.nr_variables);
	print_all(rows, "read", job.reads, job.nr_reads);
	print_all(rows, "program", (char *const[]){ job.blocked, job.efficiency, job.oncpu }, 3);
}
