// SPDX-License-Identifier: GPL-2.0-or-later
#include "trace/traces.h"

#include <stdlib.h>

#include "cache_lines/sharing_query.h"
#include "counts/insns.h"
#include "lib/xalloc.h"

#define SAMPLED 32 /* operations of a task */
#define FEWEST 8 /* operations of a task, if they are long */
#define ENOUGH_EVENTS (1ull << 16) /* of a task: with longer operations, fewer are sampled */
#define EVENTS_BYTES (384ull << 20) /* of all tasks */
#define LINES_BYTES (256ull << 20)
#define FIRST_EVENTS 1024

static struct {
	struct trace *all; /* by task */
	uint64_t nr;
	size_t max_events; /* of a task */
	uint64_t every; /* one of so many operations is sampled */
	uint64_t lost;
} traces;

void traces_arm(uint64_t nr_tasks, uint64_t operations)
{
	for (uint64_t task = 0; task < traces.nr; task++)
		free(traces.all[task].events);
	free(traces.all);
	traces.all = xcalloc(nr_tasks, sizeof(*traces.all));
	traces.nr = nr_tasks;
	traces.max_events = EVENTS_BYTES / sizeof(struct trace_event) / (nr_tasks ? nr_tasks : 1);
	traces.every = operations / SAMPLED + (operations % SAMPLED != 0);
}

/* One of how many stretches is sampled: fewer of them if operations are long, as all are much the same. */
static uint64_t stretches(const struct trace *trace)
{
	uint64_t wanted = trace->longest * SAMPLED / ENOUGH_EVENTS;

	if (wanted > SAMPLED / FEWEST)
		return SAMPLED / FEWEST;
	return wanted ? wanted : 1;
}

/* One operation in each stretch, at a random place: what happens periodically is not missed. */
static bool is_sampled(uint64_t task, uint64_t number)
{
	uint64_t stretch = number / traces.every;
	const uint64_t words[] = { task + 1, stretch + 1 };

	return stretch < SAMPLED && stretch % stretches(&traces.all[task]) == 0 &&
	       number % traces.every == (hash(words, 2) >> 16) % traces.every;
}

static bool grow(struct trace *trace)
{
	size_t room = trace->room ? trace->room * 2 : FIRST_EVENTS;
	struct trace_event *events;

	if (room > traces.max_events)
		room = traces.max_events;
	events = room > trace->room ? realloc(trace->events, room * sizeof(*events)) : NULL;
	if (!events)
		return false;
	trace->events = events;
	trace->room = room;
	return true;
}

static void append(struct trace *trace, const struct trace_event *event)
{
	if (trace->nr == trace->room && !grow(trace))
		trace->full = true;
	else
		trace->events[trace->nr++] = *event;
}

struct trace *traces_begin(uint64_t task, uint64_t number, uint64_t stack)
{
	struct trace *trace = &traces.all[task];
	const struct trace_event first = { .kind = TRACE_OPERATION, .address = number };

	trace->stack = stack;
	if (!is_sampled(task, number))
		return NULL;
	if (traces.max_events - trace->nr < trace->longest) {
		trace->dropped_no_room++;
		return NULL;
	}
	trace->begun = trace->nr;
	trace->tracing = true;
	trace->full = false;
	trace->executed = trace->attributed = 0;
	trace->depth = 0;
	trace->string.insn = trace->unit.insn = 0;
	trace->broadcast = trace->yields = false;
	append(trace, &first);
	return trace;
}

static void keep(struct trace *trace)
{
	struct trace_event *first = &trace->events[trace->begun + 1];
	size_t nr = trace->nr - trace->begun;

	/* Instructions after its last event are attributed to its first one: operations are much the same. */
	if (nr > 1)
		first->instructions += trace->executed - trace->attributed;
	if (nr > trace->longest)
		trace->longest = nr;
	trace->complete++;
}

void traces_end(uint64_t task, bool all_seen)
{
	struct trace *trace = &traces.all[task];

	if (!trace->tracing)
		return;
	trace->tracing = false;
	if (trace->full)
		trace->dropped_no_room++;
	else if (!all_seen)
		trace->dropped_untracked++;
	else
		keep(trace);
	if (trace->full || !all_seen)
		trace->nr = trace->begun;
}

void traces_add(struct trace *trace, struct trace_event event, uint64_t early)
{
	uint64_t at = trace->executed - (early < trace->executed ? early : trace->executed);

	event.instructions = at > trace->attributed ? at - trace->attributed : 0;
	trace->attributed += event.instructions;
	append(trace, &event);
}

static bool is_access(const struct trace_event *event)
{
	return event->kind == TRACE_READ || event->kind == TRACE_WRITE || event->kind == TRACE_ATOMIC;
}

static void find_shared(struct sharing_query *lines, struct line_table *const *tables, unsigned int nr_tables)
{
	for (uint64_t task = 0; task < traces.nr; task++) {
		const struct trace *trace = &traces.all[task];

		for (size_t i = 0; i < trace->nr; i++)
			if (is_access(&trace->events[i]))
				sharing_query_add(lines, trace->events[i].address);
	}
	sharing_query_resolve(lines, tables, nr_tables);
}

static void write_event(FILE *out, uint64_t task, uint64_t operation, const struct trace_event *event,
			uint64_t instructions)
{
	static const char *const kinds[] = {
		[TRACE_ENTER] = "enter", [TRACE_EXIT] = "exit",	    [TRACE_READ] = "read",   [TRACE_WRITE] = "write",
		[TRACE_LOCK] = "lock",	 [TRACE_UNLOCK] = "unlock", [TRACE_FILL] = "fill",   [TRACE_COPY] = "copy",
		[TRACE_WAKE] = "wake",	 [TRACE_SLEEP] = "sleep",   [TRACE_ATOMIC] = "atomic", [TRACE_IPI] = "ipi",
		[TRACE_DOWNGRADE] = "downgrade", [TRACE_TLBI] = "tlbi",
	};

	fprintf(out, "%lu,%lu,%s,%lu,%#lx,%u,%#lx,%s\n", task, operation, kinds[event->kind], instructions,
		event->address, event->bytes, event->insn ? insns_pc(event->insn) : 0,
		event->by ? event->by->name : "");
}

static void write_task(FILE *out, uint64_t task, const struct sharing_query *lines)
{
	const struct trace *trace = &traces.all[task];
	uint64_t operation = 0, instructions = 0;

	for (size_t i = 0; i < trace->nr; i++) {
		const struct trace_event *event = &trace->events[i];

		if (event->kind == TRACE_OPERATION) {
			operation = event->address;
			instructions = 0;
			continue;
		}
		instructions += event->instructions;
		if (is_access(event) && !sharing_query_is_shared(lines, event->address))
			continue;
		write_event(out, task, operation, event, instructions);
		instructions = 0;
	}
}

int traces_write(FILE *out, struct line_table *const *tables, unsigned int nr_tables, unsigned int line_bytes)
{
	struct sharing_query lines = { .line_bytes = line_bytes, .table = { .max_bytes = LINES_BYTES } };

	find_shared(&lines, tables, nr_tables);
	fprintf(out, "task,operation,kind,instructions,address,bytes,pc,lock\n");
	for (uint64_t task = 0; task < traces.nr; task++)
		write_task(out, task, &lines);
	traces.lost = lines.table.lost;
	sharing_query_free(&lines);
	return ferror(out) ? -1 : 0;
}

uint64_t traces_lost(void)
{
	return traces.lost;
}

void traces_write_summary(FILE *out)
{
	fprintf(out, "[");
	for (uint64_t task = 0; task < traces.nr; task++) {
		const struct trace *trace = &traces.all[task];

		fprintf(out, "%s{\"stack\":%lu,\"operations\":%lu,\"left_out\":%lu,\"cut\":%lu}", task ? "," : "",
			trace->stack, trace->complete, trace->dropped_no_room, trace->dropped_untracked);
	}
	fprintf(out, "]");
}
