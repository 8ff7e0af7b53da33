/* A libnvidia-ml.so.1 without a GPU, for tests: answers what a JSON file says.

   $NVML_FAKE names the file; it is read again when a round begins (nvmlInit, nvmlDeviceGetCount) and while a call hangs. Every
   object and list in it is flattened to paths: devices.3.power, devices.3.instances.0.uuid, devices.3.fields.230. A value that is
   not there is "not supported". In place of a value, {"error": 15} is a return code, {"crash": true} ends the process, and
   {"hang": true} blocks until the file says otherwise. $NVML_FAKE_TRACE names a file that gets a line per call: process id, device, value.

   Must know nothing of who calls it: structure layouts are NVML's, sentences are our own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int code;
typedef void *handle;
enum { OK = 0, UNINITIALIZED = 1, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, VERSION = 25 };
enum { SLOTS = 1 << 13, LONGEST = 200, INSTANCES = 16 };

/* ---- the file: paths and texts in a hash table ---- */

struct entry {
    char path[LONGEST];
    char text[LONGEST];
};
static struct entry *table;
static int exceptions; /* whether any call hangs, crashes or fails: asked first, since most files have none */
static int users;
static int trace = -1;
static struct timespec changed;
static ino_t inode;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned hash(const char *path) {
    unsigned h = 2166136261u;
    for (; *path; path++) h = (h ^ (unsigned char)*path) * 16777619u;
    return h % SLOTS;
}

static struct entry *slot(struct entry *in, const char *path) {
    unsigned at = hash(path);
    while (in[at].path[0] && strcmp(in[at].path, path)) at = (at + 1) % SLOTS;
    return &in[at];
}

static void put(struct entry *in, const char *path, const char *text) {
    struct entry *e = slot(in, path);
    snprintf(e->path, LONGEST, "%s", path);
    snprintf(e->text, LONGEST, "%s", text);
}

static const char *blank(const char *s) {
    while (*s && strchr(" \t\r\n,:", *s)) s++;
    return s;
}

/* A string without its quotes. \u00XX is the byte XX, so that a test can write what is not UTF-8. */
static const char *string(const char *s, char *out) {
    char *end = out + LONGEST - 1;
    for (s++; *s && *s != '"'; s++) {
        unsigned c = (unsigned char)*s;
        if (c == '\\' && s[1] == 'u') {
            sscanf(s + 2, "%4x", &c);
            s += 5;
        } else if (c == '\\') {
            c = *++s == 'n' ? '\n' : (unsigned char)*s;
        }
        if (out < end) *out++ = (char)c;
    }
    *out = 0;
    return *s ? s + 1 : s;
}

/* Reads one value and puts it, or all that is inside it, under `path`. Lists also get their length, as PATH.# . */
static const char *value(struct entry *in, const char *s, const char *path) {
    char text[LONGEST], inner[LONGEST * 2 + 2];
    s = blank(s);
    if (*s == '"') {
        s = string(s, text);
        put(in, path, text);
    } else if (*s == '{' || *s == '[') {
        int list = *s == '[', n = 0;
        for (s = blank(s + 1); *s && *s != '}' && *s != ']'; s = blank(s), n++) {
            if (list) snprintf(text, LONGEST, "%d", n);
            else s = string(s, text);
            snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", text);
            inner[LONGEST - 1] = 0;
            s = value(in, s, inner);
        }
        if (list) {
            snprintf(inner, sizeof inner, "%s.#", path);
            snprintf(text, LONGEST, "%d", n);
            put(in, inner, text);
        }
        if (*s) s++;
    } else {
        int n = 0;
        while (*s && !strchr(",]} \t\r\n", *s) && n < LONGEST - 1) text[n++] = *s++;
        text[n] = 0;
        if (strcmp(text, "null") && strcmp(text, "false")) put(in, path, strcmp(text, "true") ? text : "1");
    }
    return s;
}

static void load(void) {
    const char *name = getenv("NVML_FAKE");
    struct stat now;
    if (!name || stat(name, &now)) return;
    pthread_mutex_lock(&lock);
    if (!table || now.st_ino != inode || memcmp(&now.st_mtim, &changed, sizeof changed)) {
        char *text = calloc(1, (size_t)now.st_size + 1);
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, text, (size_t)now.st_size) == now.st_size) {
            struct entry *fresh = calloc(SLOTS, sizeof *fresh); /* the old one is left to calls that hang in it */
            exceptions = strstr(text, "\"hang\"") || strstr(text, "\"crash\"") || strstr(text, "\"error\"");
            value(fresh, text, "");
            table = fresh;
            changed = now.st_mtim;
            inode = now.st_ino;
        }
        if (fd >= 0) close(fd);
        free(text);
    }
    pthread_mutex_unlock(&lock);
}

static const char *get(const char *form, ...) {
    char path[LONGEST];
    va_list rest;
    va_start(rest, form);
    vsnprintf(path, sizeof path, form, rest);
    va_end(rest);
    struct entry *e = table ? slot(table, path) : NULL;
    return e && e->path[0] ? e->text : NULL;
}

/* ---- handles: GPU n is n + 1, its instance i is (n + 1) * 100 + i + 1 ---- */

static const char *place(handle h, char *out) {
    long n = (long)h;
    if (n == 0) return "";
    if (n < 100) snprintf(out, LONGEST, "devices.%ld.", n - 1);
    else snprintf(out, LONGEST, "devices.%ld.instances.%ld.", n / 100 - 1, n % 100 - 1);
    return out;
}

/* What every call does first: note, fail and hang as the file says. */
static code enter(handle h, const char *key) {
    char at[LONGEST];
    const char *prefix = trace >= 0 || exceptions ? place(h, at) : "", *error;
    if (trace >= 0) dprintf(trace, "%d %s%s\n", getpid(), prefix, key);
    if (!users && strcmp(key, "init")) return UNINITIALIZED;
    if (!exceptions) return OK;
    while (get("%s%s.hang", prefix, key)) {
        usleep(10000);
        load();
    }
    if (get("%s%s.crash", prefix, key)) abort();
    error = get("%s%s.error", prefix, key);
    return error ? atoi(error) : OK;
}

/* The number at KEY, or at KEY.PART. */
static code number(handle h, const char *key, const char *part, double *out) {
    char at[LONGEST];
    const char *text = part ? get("%s%s.%s", place(h, at), key, part) : get("%s%s", place(h, at), key);
    if (!text) return NOT_SUPPORTED;
    *out = strtod(text, NULL);
    return OK;
}

static code whole(handle h, const char *key, const char *part, unsigned *out) {
    double v = 0;
    code c = number(h, key, part, &v);
    if (c == OK) *out = v < 0 ? (unsigned)(int)v : (unsigned)v;
    return c;
}

static code text(handle h, const char *key, char *out, unsigned size) {
    char at[LONGEST];
    code c = enter(h, key);
    const char *found = get("%s%s", place(h, at), key);
    if (c) return c;
    if (!found) return NOT_SUPPORTED;
    if (strlen(found) >= size) return TOO_SMALL;
    strcpy(out, found);
    return OK;
}

static code ask(handle h, const char *key, unsigned *out) {
    code c = enter(h, key);
    return c ? c : whole(h, key, NULL, out);
}

static code pair(handle h, const char *key, const char *a, unsigned *first, const char *b, unsigned *second) {
    code c = enter(h, key);
    if (!c) c = whole(h, key, a, first);
    return c ? c : whole(h, key, b, second);
}

/* ---- the library and the system ---- */

code nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    const char *to = getenv("NVML_FAKE_TRACE");
    if (to && trace < 0) trace = open(to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    load();
    code c = enter(NULL, "init");
    if (!c) users++;
    return c;
}
code nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
code nvmlShutdown(void) {
    if (!users) return UNINITIALIZED;
    users--;
    return OK;
}
const char *nvmlErrorString(code c) {
    switch (c) {
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    case 999: return "Unknown Error";
    default: return "the fake library's words";
    }
}
code nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(NULL, "driver", out, size); }
code nvmlSystemGetNVMLVersion(char *out, unsigned size) { return text(NULL, "nvml", out, size); }
code nvmlSystemGetCudaDriverVersion(int *out) { return ask(NULL, "cuda", (unsigned *)out); }
code nvmlDeviceGetCount_v2(unsigned *out) {
    load();
    code c = enter(NULL, "count");
    if (!c && whole(NULL, "count", NULL, out)) c = whole(NULL, "devices", "#", out);
    return c;
}
code nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *out) {
    *out = (handle)(long)(index + 1);
    return enter(*out, "handle");
}

/* ---- one GPU ---- */

code nvmlDeviceGetName(handle h, char *out, unsigned size) { return text(h, "name", out, size); }
code nvmlDeviceGetUUID(handle h, char *out, unsigned size) { return text(h, "uuid", out, size); }
code nvmlDeviceGetSerial(handle h, char *out, unsigned size) { return text(h, "serial", out, size); }
code nvmlDeviceGetMinorNumber(handle h, unsigned *out) { return ask(h, "minor", out); }

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};
code nvmlDeviceGetPciInfo_v3(handle h, struct pci *out) { return text(h, "pci", out->bus_id, sizeof out->bus_id); }

static code memory(handle h, const char *key, double *total, double *reserved, double *used) {
    code c = enter(h, key);
    if (!c) c = number(h, key, "total", total);
    if (!c) c = number(h, key, "used", used);
    *reserved = 0;
    if (!c) number(h, key, "reserved", reserved);
    return c;
}
struct memory_1 {
    uint64_t total, free, used;
};
/* The first version counts what is reserved as used. "memory_v1" answers apart where a test wants the two to differ. */
code nvmlDeviceGetMemoryInfo(handle h, struct memory_1 *out) {
    double total, reserved, used;
    code c = enter(h, "memory_v1");
    if (!c) c = memory(h, "memory", &total, &reserved, &used);
    if (!c) *out = (struct memory_1){(uint64_t)total, (uint64_t)(total - used - reserved), (uint64_t)(used + reserved)};
    return c;
}
struct memory_2 {
    unsigned version;
    uint64_t total, reserved, free, used;
};
code nvmlDeviceGetMemoryInfo_v2(handle h, struct memory_2 *out) {
    double total, reserved, used;
    if (out->version != (sizeof *out | 2u << 24)) return VERSION;
    code c = enter(h, "memory_v2");
    if (!c) c = memory(h, "memory", &total, &reserved, &used);
    if (!c) *out = (struct memory_2){out->version, (uint64_t)total, (uint64_t)reserved, (uint64_t)(total - used - reserved), (uint64_t)used};
    return c;
}

struct shares {
    unsigned gpu, memory;
};
code nvmlDeviceGetUtilizationRates(handle h, struct shares *out) {
    return pair(h, "utilization", "gpu", &out->gpu, "memory", &out->memory);
}
code nvmlDeviceGetEncoderUtilization(handle h, unsigned *out, unsigned *period) { return *period = 100000, ask(h, "encoder", out); }
code nvmlDeviceGetDecoderUtilization(handle h, unsigned *out, unsigned *period) { return *period = 100000, ask(h, "decoder", out); }

struct temperature {
    unsigned version, sensor;
    int value;
};
code nvmlDeviceGetTemperatureV(handle h, struct temperature *out) {
    return out->version == (sizeof *out | 1u << 24) ? ask(h, "temperature", (unsigned *)&out->value) : VERSION;
}
code nvmlDeviceGetTemperature(handle h, unsigned sensor, unsigned *out) { return sensor ? BAD_ARGUMENT : ask(h, "temperature", out); }
struct margin {
    unsigned version;
    int value;
};
code nvmlDeviceGetMarginTemperature(handle h, struct margin *out) { return ask(h, "margin", (unsigned *)&out->value); }
code nvmlDeviceGetTemperatureThreshold(handle h, unsigned kind, unsigned *out) {
    code c = enter(h, "thresholds");
    char part[16];
    snprintf(part, sizeof part, "%u", kind);
    return c ? c : whole(h, "thresholds", part, out);
}
code nvmlDeviceGetPowerUsage(handle h, unsigned *out) { return ask(h, "power", out); }
code nvmlDeviceGetEnforcedPowerLimit(handle h, unsigned *out) { return ask(h, "power_limit", out); }
code nvmlDeviceGetTotalEnergyConsumption(handle h, uint64_t *out) {
    double v;
    code c = enter(h, "energy");
    if (!c) c = number(h, "energy", NULL, &v);
    if (!c) *out = (uint64_t)v;
    return c;
}
static code clock_of(handle h, const char *key, unsigned kind, unsigned *out) {
    code c = enter(h, key);
    return c ? c : whole(h, key, kind == 1 ? "sm" : "memory", out);
}
code nvmlDeviceGetClockInfo(handle h, unsigned kind, unsigned *out) { return clock_of(h, "clocks", kind, out); }
code nvmlDeviceGetMaxClockInfo(handle h, unsigned kind, unsigned *out) { return clock_of(h, "clocks_max", kind, out); }
static code reasons(handle h, uint64_t *out) {
    unsigned v;
    code c = ask(h, "reasons", &v);
    if (!c) *out = v;
    return c;
}
code nvmlDeviceGetCurrentClocksEventReasons(handle h, uint64_t *out) { return reasons(h, out); }
code nvmlDeviceGetCurrentClocksThrottleReasons(handle h, uint64_t *out) { return reasons(h, out); }

/* ---- memory errors ---- */

code nvmlDeviceGetEccMode(handle h, unsigned *now, unsigned *later) { return pair(h, "ecc_mode", "0", now, "1", later); }
code nvmlDeviceGetTotalEccErrors(handle h, unsigned uncorrected, unsigned ever, uint64_t *out) {
    static const char *const parts[] = {"corrected", "corrected_ever", "uncorrected", "uncorrected_ever"};
    double v;
    code c = enter(h, "ecc");
    if (!c) c = number(h, "ecc", parts[uncorrected * 2 + ever], &v);
    if (!c) *out = (uint64_t)v;
    return c;
}
struct sram {
    unsigned version;
    uint64_t counts[11];
    unsigned exceeded;
};
code nvmlDeviceGetSramEccErrorStatus(handle h, struct sram *out) { return ask(h, "sram_exceeded", &out->exceeded); }
static code pages(handle h, unsigned cause, unsigned *count, uint64_t *out) {
    unsigned there;
    code c = pair(h, "retired_pages", cause ? "uncorrected" : "corrected", &there, cause ? "uncorrected" : "corrected", &there);
    if (c) return c;
    unsigned room = *count;
    *count = there;
    if (!out) return there ? TOO_SMALL : OK;
    if (room < there) return TOO_SMALL;
    for (unsigned i = 0; i < there; i++) out[i] = 4096ull * i;
    return OK;
}
code nvmlDeviceGetRetiredPages(handle h, unsigned cause, unsigned *count, uint64_t *out) { return pages(h, cause, count, out); }
code nvmlDeviceGetRetiredPagesPendingStatus(handle h, unsigned *out) { return ask(h, "retirement_pending", out); }
code nvmlDeviceGetRemappedRows(handle h, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failure) {
    code c = pair(h, "remapped", "0", corrected, "1", uncorrected);
    if (!c) c = whole(h, "remapped", "2", pending);
    return c ? c : whole(h, "remapped", "3", failure);
}

/* ---- field values: the path is fields.ID, or fields.ID:LINK; {"error": 3} is that item's own return code ---- */

struct field {
    unsigned id, scope;
    int64_t at, latency;
    unsigned type;
    code result;
    union {
        double real;
        uint64_t whole;
        int64_t negative;
    } value;
};
code nvmlDeviceGetFieldValues(handle h, int count, struct field *items) {
    char at[LONGEST];
    code c = enter(h, "fields");
    const char *prefix = place(h, at);
    for (int i = 0; !c && i < count; i++) {
        struct field *f = &items[i];
        char key[32];
        if (f->scope) snprintf(key, sizeof key, "%u:%u", f->id, f->scope);
        else snprintf(key, sizeof key, "%u", f->id);
        const char *found = get("%sfields.%s", prefix, key), *error = get("%sfields.%s.error", prefix, key);
        f->result = error ? atoi(error) : found ? OK : NOT_SUPPORTED;
        if (!found) continue; /* the union keeps what was in it, as the driver does */
        f->type = strchr(found, '.') ? 0 : *found == '-' ? 4 : 3;
        if (f->type == 0) f->value.real = strtod(found, NULL);
        else f->value.negative = strtoll(found, NULL, 10);
    }
    return c;
}

/* ---- links and buses ---- */

code nvmlDeviceGetNvLinkState(handle h, unsigned link, unsigned *out) {
    char part[16];
    code c = enter(h, "nvlinks");
    snprintf(part, sizeof part, "%u", link);
    return c ? c : whole(h, "nvlinks", part, out);
}
static code pcie(handle h, const char *part, unsigned *out) {
    code c = enter(h, "pcie");
    return c ? c : whole(h, "pcie", part, out);
}
code nvmlDeviceGetCurrPcieLinkGeneration(handle h, unsigned *out) { return pcie(h, "generation", out); }
code nvmlDeviceGetMaxPcieLinkGeneration(handle h, unsigned *out) { return pcie(h, "generation_max", out); }
code nvmlDeviceGetCurrPcieLinkWidth(handle h, unsigned *out) { return pcie(h, "width", out); }
code nvmlDeviceGetMaxPcieLinkWidth(handle h, unsigned *out) { return pcie(h, "width_max", out); }
code nvmlDeviceGetPcieReplayCounter(handle h, unsigned *out) { return pcie(h, "replays", out); }
code nvmlDeviceGetPersistenceMode(handle h, unsigned *out) { return ask(h, "persistence", out); }

static code fabric(handle h, code *status, unsigned *clique, unsigned *state) {
    code c = pair(h, "fabric", "clique", clique, "state", state);
    return c ? c : whole(h, "fabric", "status", (unsigned *)status);
}
struct fabric_0 {
    uint8_t cluster[16];
    code status;
    unsigned clique;
    uint8_t state;
};
code nvmlDeviceGetGpuFabricInfo(handle h, struct fabric_0 *out) {
    unsigned state = 0;
    code c = fabric(h, &out->status, &out->clique, &state);
    out->state = (uint8_t)state;
    return c;
}
struct fabric_3 {
    unsigned version;
    uint8_t cluster[16];
    code status;
    unsigned clique;
    uint8_t state;
    unsigned mask;
    uint8_t health;
};
code nvmlDeviceGetGpuFabricInfoV(handle h, struct fabric_3 *out) {
    unsigned state = 0, health = 0, newest = 3;
    whole(NULL, "fabric_version", NULL, &newest);
    if (out->version >> 24 > newest) return VERSION;
    code c = fabric(h, &out->status, &out->clique, &state);
    out->state = (uint8_t)state;
    if (!c && out->version >> 24 == 3 && !whole(h, "fabric", "health", &health)) out->health = (uint8_t)health;
    return c;
}

/* ---- processes and MIG ---- */

struct process {
    unsigned pid;
    uint64_t used;
    unsigned gi, ci;
};
static code processes(handle h, const char *key, unsigned *count, struct process *out) {
    char at[LONGEST];
    code c = enter(h, key);
    const char *length = get("%s%s.#", place(h, at), key);
    unsigned there = length ? (unsigned)atoi(length) : 0, room = *count;
    if (c) return c;
    if (!length) return NOT_SUPPORTED;
    *count = there;
    if (there && (!out || room < there)) return TOO_SMALL;
    for (unsigned i = 0; i < there; i++) {
        char item[LONGEST];
        double used = 0;
        snprintf(item, sizeof item, "%s.%u", key, i);
        out[i] = (struct process){0, UINT64_MAX, UINT32_MAX, UINT32_MAX};
        whole(h, item, "pid", &out[i].pid);
        whole(h, item, "gi", &out[i].gi);
        whole(h, item, "ci", &out[i].ci);
        if (!number(h, item, "used", &used)) out[i].used = (uint64_t)used;
    }
    return OK;
}
#define PROCESSES(kind, key, version) \
    code nvmlDeviceGet##kind##RunningProcesses_##version(handle h, unsigned *n, struct process *out) { return processes(h, key, n, out); }
PROCESSES(Compute, "processes", v2)
PROCESSES(Compute, "processes", v3)
PROCESSES(Graphics, "graphics", v2)
PROCESSES(Graphics, "graphics", v3)
PROCESSES(MPSCompute, "mps", v3)

code nvmlDeviceGetMigMode(handle h, unsigned *now, unsigned *later) { return pair(h, "mig", "0", now, "1", later); }
code nvmlDeviceGetMaxMigDeviceCount(handle h, unsigned *out) { return ask(h, "mig_most", out); }
code nvmlDeviceGetMigDeviceHandleByIndex(handle h, unsigned index, handle *out) {
    char at[LONGEST];
    code c = enter(h, "instance");
    if (c) return c;
    if (index >= INSTANCES || !get("%sinstances.%u.uuid", place(h, at), index)) return NOT_FOUND;
    *out = (handle)((long)h * 100 + index + 1);
    return OK;
}
code nvmlDeviceGetGpuInstanceId(handle h, unsigned *out) { return ask(h, "gi", out); }
code nvmlDeviceGetComputeInstanceId(handle h, unsigned *out) { return ask(h, "ci", out); }
struct attributes {
    unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gi_slices, ci_slices;
    uint64_t memory_mib;
};
code nvmlDeviceGetAttributes_v2(handle h, struct attributes *out) {
    unsigned mib = 0;
    code c = pair(h, "attributes", "slices", &out->gi_slices, "mib", &mib);
    out->ci_slices = out->gi_slices;
    out->memory_mib = mib;
    return c;
}
