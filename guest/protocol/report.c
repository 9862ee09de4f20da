// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "report.h"

#include "crc32.h"
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MOST_PAYLOAD_BYTES (16 << 20) /* that the controller takes: src/bigiron/machines/messages.py */
#define PART_BYTES (1 << 20)	      /* of a file, of which one line may be long */

static int report_fd = STDOUT_FILENO;
static int stderr_fd = -1;

static void write_all(const char *bytes, size_t length)
{
	while (length) {
		ssize_t written = write(report_fd, bytes, length);

		if (written < 0 && errno != EINTR)
			return;
		if (written > 0) {
			bytes += written;
			length -= written;
		}
	}
}

/* Each frame is one write(): two processes may report at once. Short frames need no memory. */
static void send_frame(const char *type, const char *payload, size_t length)
{
	char head[64], small[512];
	int before = snprintf(head, sizeof(head), "@bigiron %s %zu %08x\n", type, length, crc32(payload, length));
	char *frame = before + length + 1 <= sizeof(small) ? small : malloc(before + length + 1);

	if (!frame) {
		report_lost("messages of the agent, for which it had no memory", 1);
		return;
	}
	memcpy(frame, head, before);
	memcpy(frame + before, payload, length);
	frame[before + length] = '\n';
	write_all(frame, before + length + 1);
	if (frame != small)
		free(frame);
}

void report_open(const char *path)
{
	struct termios raw;

	if (!path)
		return;
	report_fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (report_fd < 0) {
		printf("agent: cannot report on %s: %m\n", path);
		return;
	}
	tcgetattr(report_fd, &raw);
	cfmakeraw(&raw);
	tcsetattr(report_fd, TCSANOW, &raw);
}

void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

/* Empty where there is no such file. */
static void json_first_line(FILE *out, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[256] = "";

	if (file && !fgets(line, sizeof(line), file))
		*line = 0;
	if (file)
		fclose(file);
	line[strcspn(line, "\n")] = 0;
	json_string(out, line);
}

int report_begin(struct report *report)
{
	if (report->begun++)
		return 0;
	report->out = open_memstream(&report->text, &report->size);
	if (!report->out)
		report_lost("messages of the agent, for which it had no memory", 1);
	return !!report->out;
}

void report_send(struct report *report, const char *type)
{
	int failed = ferror(report->out);

	if (fclose(report->out) || failed)
		report_lost("messages of the agent, for which it had no memory", 1);
	else if (report->size > MOST_PAYLOAD_BYTES)
		report_lost("messages of the agent, which were longer than 16 MiB", 1);
	else
		send_frame(type, report->text, report->size);
	free(report->text);
}

void report_lost(const char *what, unsigned long count)
{
	char text[256];
	int length = snprintf(text, sizeof(text), "{\"what\":\"%s\",\"count\":%lu}", what, count);

	if (count)
		send_frame("lost", text, length);
}

void report_test_failed(unsigned long test, const char *call, const char *expected, const char *result)
{
	WITH_REPORT("test_failed", out) {
		fprintf(out, "{\"test\":%lu,\"call\":", test);
		json_string(out, call);
		fprintf(out, ",\"expected\":");
		json_string(out, expected);
		fprintf(out, ",\"result\":");
		json_string(out, result);
		fputc('}', out);
	}
}

void report_waiting(int pid)
{
	WITH_REPORT("waiting", out)
		fprintf(out, "{\"pid\":%d}", pid);
}

void report_remains(int pid)
{
	WITH_REPORT("remains", out)
		fprintf(out, "{\"pid\":%d}", pid);
}

void report_hello(void)
{
	struct utsname name;

	uname(&name);
	WITH_REPORT("hello", out) {
		fprintf(out, "{\"protocol\":%d,\"cpus\":%d,\"page_bytes\":%d,\"release\":", AGENT_PROTOCOL,
			get_nprocs(), getpagesize());
		json_string(out, name.release);
		fprintf(out, ",\"version\":");
		json_string(out, name.version);
		fprintf(out, ",\"machine\":");
		json_string(out, name.machine);
		fprintf(out, ",\"security_modules\":");
		json_first_line(out, "/sys/kernel/security/lsm");
		fprintf(out, ",\"security_label\":");
		json_first_line(out, "/proc/self/attr/current");
		fputc('}', out);
	}
	/* A setting that crashes the kernel may come next: let the message out before that. */
	tcdrain(report_fd);
}

void report_room(const uint64_t *frames, unsigned long pages)
{
	WITH_REPORT("room", out) {
		fprintf(out, "{\"protocol\":%d,\"page_bytes\":%d,\"runs\":[", AGENT_PROTOCOL, getpagesize());
		for (unsigned long i = 0, run; i < pages; i += run) {
			for (run = 1; i + run < pages && frames[i + run] == frames[i] + run; run++)
				;
			fprintf(out, "%s[%lu,%lu]", i ? "," : "", frames[i], run);
		}
		fprintf(out, "]}");
	}
	tcdrain(report_fd);
}

void report_stage(const char *stage)
{
	WITH_REPORT("stage", out) {
		fprintf(out, "{\"stage\":");
		json_string(out, stage);
		fputc('}', out);
	}
	/* The agent causes the serial line's interrupts: none may be pending in the stage that begins. */
	tcdrain(report_fd);
}

void json_operations(FILE *out, const uint64_t *operations, unsigned long tasks)
{
	fprintf(out, "\"operations\":[");
	for (unsigned long i = 0; i < tasks; i++)
		fprintf(out, "%s%lu", i ? "," : "", operations[i]);
	fputc(']', out);
}

void report_recorded(uint64_t nanoseconds)
{
	WITH_REPORT("recorded", out)
		fprintf(out, "{\"nanoseconds\":%lu}", nanoseconds);
}

void report_sample(uint64_t nanoseconds, const uint64_t *operations, unsigned long tasks)
{
	WITH_REPORT("sample", out) {
		fprintf(out, "{\"nanoseconds\":%lu,", nanoseconds);
		json_operations(out, operations, tasks);
		fputc('}', out);
	}
}

void json_names(FILE *out, const char *const *names, const int *absent, unsigned long number, int wanted)
{
	const char *separator = "";

	for (unsigned long i = 0; i < number; i++) {
		if (absent[i] != wanted)
			continue;
		fputs(separator, out);
		json_string(out, names[i]);
		separator = ",";
	}
}

void report_cgroup(const char *const *controllers, const int *absent, unsigned long number)
{
	WITH_REPORT("cgroup", out) {
		fprintf(out, "{\"controllers\":[");
		json_names(out, controllers, absent, number, 0);
		fprintf(out, "],\"absent\":[");
		json_names(out, controllers, absent, number, 1);
		fprintf(out, "]}");
	}
}

#define TAIL_BYTES 4096

/* The last lines of a file. */
static void json_tail(FILE *out, int fd)
{
	char text[TAIL_BYTES + 1], *from = text;
	off_t size = lseek(fd, 0, SEEK_END);
	ssize_t length = pread(fd, text, TAIL_BYTES, size > TAIL_BYTES ? size - TAIL_BYTES : 0);

	text[length > 0 ? length : 0] = 0;
	if (size > TAIL_BYTES && strchr(text, '\n'))
		from = strchr(text, '\n') + 1;
	json_string(out, from);
}

static int report_error_of(int output, const char *kind, const char *format, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	WITH_REPORT("error", out) {
		fprintf(out, "{\"kind\":");
		json_string(out, kind);
		fprintf(out, ",\"text\":");
		json_string(out, text ? text : format);
		if (output >= 0) {
			fprintf(out, ",\"output\":");
			json_tail(out, output);
		}
		fputc('}', out);
	}
	free(text);
	return 1;
}

int report_error(const char *kind, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	report_error_of(-1, kind, format, args);
	va_end(args);
	return 1;
}

int report_program_error(int output, const char *kind, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	report_error_of(output, kind, format, args);
	va_end(args);
	return 1;
}

/* A long file is reported in parts, each of which says whether there are more. */
void report_lines(const char *path, FILE *file)
{
	char *line = NULL;
	size_t room = 0;
	int more;

	do {
		more = 0;
		WITH_REPORT("file", out) {
			fprintf(out, "{\"path\":");
			json_string(out, path);
			fprintf(out, ",\"lines\":[");
			for (int first = 1; !more && getline(&line, &room, file) >= 0; first = 0) {
				line[strcspn(line, "\n")] = 0;
				fputs(first ? "" : ",", out);
				json_string(out, line);
				more = ftell(out) > PART_BYTES;
			}
			fprintf(out, "],\"more\":%s}", more ? "true" : "false");
		}
	} while (more);
	free(line);
}

void report_command(uint64_t nanoseconds, int status)
{
	WITH_REPORT("command", out)
		fprintf(out, "{\"nanoseconds\":%lu,\"status\":%d,\"signal\":%d}", nanoseconds,
			WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int report_file(const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return report_error("setting", "cannot read %s: %m", path);
	report_lines(path, file);
	fclose(file);
	return 0;
}

int report_files(const struct job *job)
{
	int failed = 0;

	for (unsigned long i = 0; !failed && i < job->nr_reads; i++)
		failed = report_file(job->reads[i]);
	return failed;
}

void report_end(int failed)
{
	const char *text = failed ? "{\"failed\":true}" : "{\"failed\":false}";

	send_frame("end", text, strlen(text));
	tcdrain(report_fd);
}

void capture_workload_stderr(void)
{
	stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
	if (stderr_fd >= 0)
		dup2(stderr_fd, STDERR_FILENO);
}

const char *workload_stderr(void)
{
	static char text[1024];
	ssize_t length = pread(stderr_fd, text + 2, sizeof(text) - 3, 0);

	if (length <= 0)
		return "";
	memcpy(text, ": ", 2);
	text[length + 2] = 0;
	/* The first line: many tasks may have written the same. */
	text[2 + strcspn(text + 2, "\n")] = 0;
	return text;
}
