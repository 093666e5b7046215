/* A libnvidia-ml.so.1 without a driver: it says what the text file FAKE_NVML_STATE says now.
 *
 *   driver 535.104.05
 *   fail nvmlDeviceGetTemperature 3      every call returns NVML_ERROR_NOT_SUPPORTED
 *   gpu                                  the next GPU; what follows is about it
 *   uuid GPU-1                           a key of the table below, and its value
 *   process 4242 1073741824              a process, and the bytes that it holds
 *   use 4242 40                          a process, and its percentage of the time
 *   fail nvmlDeviceGetClockInfo 15 2     of this GPU: GPU_IS_LOST after two calls; * is any function
 *   slice                                a MIG slice of the GPU before; what follows is about it
 *
 * A key that a GPU has not is NOT_SUPPORTED. A driver that lacks a function is a library compiled
 * with -DnvmlFunction=lacking: the symbol is not there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, NOT_LOADED = 9 };
enum { DEVICES = 64, LINES = 64, LINE = 160 };

typedef struct { char line[LINES][LINE]; int lines, board, slice; } Device;
typedef struct { unsigned pid; unsigned long long bytes; unsigned instance, compute; } Process;
typedef struct { unsigned pid; unsigned long long time; unsigned sm, mem, enc, dec; } Use;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} Pci;

static Device all, devices[DEVICES];
static int count;
/* Calls so far, by function and device: a state says when a GPU is lost. */
static struct { char name[80]; int device, calls; } calls[512];

static int load(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LINE], *text;
    Device *now = &all;
    int board = -1;
    count = all.lines = 0;
    if (!file) return NOT_LOADED;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        text = line + strspn(line, " ");
        if (!strcmp(text, "gpu") || !strcmp(text, "slice")) {
            if (count == DEVICES) abort();
            now = &devices[count];
            now->lines = 0;
            now->slice = text[0] == 's';
            if (!now->slice) board = count;
            now->board = board;
            count++;
        } else if (*text) {
            if (now->lines == LINES) abort();
            strcpy(now->line[now->lines++], text);
        }
    }
    fclose(file);
    return OK;
}

/* The rest of the number-th line that begins with a word; NULL if there is none. */
static const char *said(const Device *device, const char *word, int number)
{
    size_t length = strlen(word);
    for (int i = 0; i < device->lines; i++)
        if (!strncmp(device->line[i], word, length) && device->line[i][length] == ' ' && !number--)
            return device->line[i] + length + 1;
    return NULL;
}

static int planned(const Device *device, const char *function, int so_far)
{
    char name[80];
    int code, after;
    const char *text;
    for (int i = 0; (text = said(device, "fail", i)); i++) {
        after = 0;
        if (sscanf(text, "%79s %d %d", name, &code, &after) < 2) abort();
        if ((!strcmp(name, "*") || !strcmp(name, function)) && so_far >= after) return code;
    }
    return OK;
}

/* Read the state, count the call, and return what is planned for it. */
static int called(const char *function, Device *device)
{
    int index = device ? (int)(device - devices) : -1, code = load(), i = 0;
    if (code) return code;
    if (index >= count) return BAD_ARGUMENT;
    while (calls[i].name[0] && (strcmp(calls[i].name, function) || calls[i].device != index)) i++;
    if (i == 511) abort();
    strcpy(calls[i].name, function);
    calls[i].device = index;
    code = device ? planned(device, function, calls[i].calls) : OK;
    if (!code) code = planned(&all, function, calls[i].calls);
    calls[i].calls++;
    return code;
}

#define ENTER(device) do { int code_ = called(__func__, device); if (code_) return code_; } while (0)

static int text_of(const Device *device, const char *key, char *to, unsigned size)
{
    const char *found = said(device, key, 0);
    if (!found) return NOT_SUPPORTED;
    if (strlen(found) >= size) return SMALL;
    strcpy(to, found);
    return OK;
}

static int number_of(const Device *device, const char *key, unsigned *to)
{
    const char *found = said(device, key, 0);
    if (!found) return NOT_SUPPORTED;
    *to = (unsigned)strtoul(found, NULL, 0);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER(NULL); return OK; }
int nvmlInit_v2(void) { ENTER(NULL); return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { ENTER(NULL); return text_of(&all, "driver", to, size); }

int nvmlDeviceGetCount_v2(unsigned *to)
{
    ENTER(NULL);
    *to = 0;
    for (int i = 0; i < count; i++) *to += !devices[i].slice;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **to)
{
    ENTER(NULL);
    for (int i = 0; i < count; i++)
        if (!devices[i].slice && !index--) { *to = &devices[i]; return planned(*to, __func__, 0); }
    return BAD_ARGUMENT;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *to) { ENTER(device); *to = 7; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **to)
{
    ENTER(device);
    for (int i = (int)(device - devices) + 1; i < count && devices[i].slice; i++)
        if (!index--) { *to = &devices[i]; return OK; }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(Device *d, char *to, unsigned size) { ENTER(d); return text_of(d, "uuid", to, size); }
int nvmlDeviceGetName(Device *d, char *to, unsigned size) { ENTER(d); return text_of(d, "name", to, size); }

int nvmlDeviceGetMemoryInfo(Device *device, unsigned long long *total_free_used)
{
    ENTER(device);
    const char *found = said(device, "memory", 0);
    if (!found) return NOT_SUPPORTED;
    total_free_used[0] = total_free_used[1] = strtoull(found, NULL, 0);
    total_free_used[2] = 0;
    return OK;
}

int nvmlDeviceGetPciInfo_v3(Device *device, Pci *to)
{
    ENTER(device);
    memset(to, 0, sizeof *to);
    text_of(device, "bus_id", to->bus_id, sizeof to->bus_id);
    return number_of(device, "pci_device", &to->id);
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor)
{
    ENTER(device);
    const char *found = said(device, "capability", 0);
    return found && sscanf(found, "%d.%d", major, minor) == 2 ? OK : NOT_SUPPORTED;
}

static int both(Device *device, const char *key, unsigned *now, unsigned *pending)
{
    int code = number_of(device, key, now);
    *pending = *now;
    return code;
}

int nvmlDeviceGetMigMode(Device *d, unsigned *now, unsigned *next) { ENTER(d); return both(d, "mig", now, next); }
int nvmlDeviceGetEccMode(Device *d, unsigned *now, unsigned *next) { ENTER(d); return both(d, "ecc", now, next); }

int nvmlDeviceGetPersistenceMode(Device *d, unsigned *to) { ENTER(d); return number_of(d, "persistence", to); }
int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *to) { ENTER(d); return number_of(d, "power_limit", to); }
int nvmlDeviceGetPowerManagementDefaultLimit(Device *d, unsigned *to) { ENTER(d); return number_of(d, "power_default", to); }
int nvmlDeviceGetPowerUsage(Device *d, unsigned *to) { ENTER(d); return number_of(d, "power", to); }
int nvmlDeviceGetClockInfo(Device *d, unsigned kind, unsigned *to) { ENTER(d); return kind == 1 ? number_of(d, "clock", to) : NOT_SUPPORTED; }
int nvmlDeviceGetMaxClockInfo(Device *d, unsigned kind, unsigned *to) { ENTER(d); return kind == 1 ? number_of(d, "max_clock", to) : NOT_SUPPORTED; }
int nvmlDeviceGetApplicationsClock(Device *d, unsigned kind, unsigned *to) { ENTER(d); return kind == 1 ? number_of(d, "set_clock", to) : NOT_SUPPORTED; }
int nvmlDeviceGetDefaultApplicationsClock(Device *d, unsigned kind, unsigned *to) { ENTER(d); return kind == 1 ? number_of(d, "default_clock", to) : NOT_SUPPORTED; }
int nvmlDeviceGetTemperature(Device *d, unsigned sensor, unsigned *to) { ENTER(d); return sensor ? NOT_SUPPORTED : number_of(d, "temperature", to); }
int nvmlDeviceGetTopologyCommonAncestor(Device *d, Device *other, unsigned *to) { ENTER(d); (void)other; return number_of(d, "ancestor", to); }

int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *to)
{
    ENTER(device);
    unsigned links = 0;
    int code = number_of(device, "nvlinks", &links);
    *to = link < links;
    return code;
}

int nvmlDeviceGetUtilizationRates(Device *device, unsigned *gpu_memory)
{
    ENTER(device);
    gpu_memory[1] = 0;
    return number_of(device, "used", gpu_memory);
}

int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *to)
{
    ENTER(device);
    unsigned found = 0;
    int code = number_of(device, "energy", &found);
    *to = found;
    return code;
}

static int reasons(Device *device, unsigned long long *to)
{
    unsigned found = 0;
    int code = number_of(device, "reasons", &found);
    *to = found;
    return code;
}

int nvmlDeviceGetCurrentClocksEventReasons(Device *d, unsigned long long *to) { ENTER(d); return reasons(d, to); }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *d, unsigned long long *to) { ENTER(d); return reasons(d, to); }

static int running(const Device *device, unsigned *size, Process *to)
{
    const char *text;
    unsigned found = 0;
    while ((text = said(device, "process", (int)found))) {
        if (to && found < *size) {
            memset(&to[found], 0, sizeof *to);
            if (sscanf(text, "%u %llu", &to[found].pid, &to[found].bytes) != 2) abort();
        }
        found++;
    }
    int code = found > *size ? SMALL : OK;
    *size = found;
    return code;
}

int nvmlDeviceGetComputeRunningProcesses_v2(Device *d, unsigned *size, Process *to) { ENTER(d); return running(d, size, to); }
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *size, Process *to) { ENTER(d); return running(d, size, to); }

int nvmlDeviceGetProcessUtilization(Device *device, Use *to, unsigned *size, unsigned long long since)
{
    ENTER(device);
    const char *text;
    unsigned found = 0;
    while ((text = said(device, "use", (int)found))) {
        if (to && found < *size) {
            memset(&to[found], 0, sizeof *to);
            to[found].time = since + 1;
            if (sscanf(text, "%u %u", &to[found].pid, &to[found].sm) != 2) abort();
        }
        found++;
    }
    if (!found) return NOT_FOUND;
    int code = found > *size || !to ? SMALL : OK;
    *size = found;
    return code;
}
