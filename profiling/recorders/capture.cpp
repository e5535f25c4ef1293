// Keeps single kernel launches of any program, so that they can be launched again without it: code, arguments, and
// the memory that is reachable from them, before and after. The CUDA driver loads this library where
// CUDA_INJECTION64_PATH names it. What it writes is described in profiling/capsules/capsule.py.
//
// The program is only read: it waits while its launch is copied, and goes on with what it had.
#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <regex.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr size_t kChunk = 32u << 20;     // bytes copied at once
constexpr size_t kPage = 64u << 10;      // unit in which memory after the launch is compared and kept
constexpr size_t kPointersMost = 2 << 20;  // allocations up to this size (PyTorch's small ones) may hold pointers
constexpr uint64_t kRefusedMost = 100;     // refused launches after which no more are tried

// The driver that the program has loaded. It need not be visible to this library, so that nothing is linked to it.
#define DRIVER_FUNCTIONS(EACH) \
  EACH(cuCtxGetDevice) \
  EACH(cuCtxSynchronize) \
  EACH(cuDeviceGetName) \
  EACH(cuDriverGetVersion) \
  EACH(cuFuncGetAttribute) \
  EACH(cuFuncGetModule) \
  EACH(cuFuncGetParamInfo) \
  EACH(cuGetErrorName) \
  EACH(cuKernelGetFunction) \
  EACH(cuMemFreeHost) \
  EACH(cuMemHostAlloc) \
  EACH(cuMemcpyDtoH) \
  EACH(cuModuleGetGlobal) \
  EACH(cuPointerGetAttributes) \
  EACH(cuStreamIsCapturing)
#define DECLARED(name) decltype(&::name) name = nullptr;
#define TEXT(name) #name
#define LOOKED_UP(name) missing = missing || !(name = reinterpret_cast<decltype(&::name)>(dlsym(library, TEXT(name))));

struct Driver {
  DRIVER_FUNCTIONS(DECLARED)
  bool missing = false;
  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    missing = !library;
    if (library) {
      DRIVER_FUNCTIONS(LOOKED_UP)
    }
  }
};

Driver& driver() {
  static Driver* only = new Driver;
  return *only;
}

// Arguments of the launching calls, as <generated_cuda_meta.h> has them (that header wants the newest cuda.h).
struct LaunchArguments {
  CUfunction function;
  unsigned grid[3], block[3], shared;
  CUstream stream;
  void** parameters;
  void** extra;
};
struct LaunchExArguments {
  const CUlaunchConfig* config;
  CUfunction function;
  void** parameters;
  void** extra;
};

struct CacheArguments {
  CUfunction function;
  CUfunc_cache config;
};
struct LoadArguments {  // how the arguments of every call that loads a module begin
  CUmodule* module;
};
struct UnloadArguments {
  CUmodule module;
};

using Cubin = std::shared_ptr<const std::vector<char>>;

struct Region {
  CUdeviceptr base;
  size_t size;
  unsigned kind;  // CUmemorytype
  bool managed;
};

struct Global {
  std::string name;
  CUdeviceptr address;
  size_t size;
};

struct Kept {  // a launch whose "after" is still to come
  std::string folder;
  std::vector<Region> regions;
};

struct State {
  std::recursive_mutex lock;  // a module may be loaded by a call of this library
  std::string folder;
  regex_t wanted, unwanted;  // of the C library: std::regex takes facets of a program's own libstdc++, and crashes
  bool leaves_out = false;
  std::map<std::string, bool> launched;  // kernels by mangled name, and whether they match
  uint64_t skip = 0, count = 0, most = 0, matched = 0, kept = 0, refused = 0;
  std::vector<Cubin> cubins;                             // of kernels with a wanted name, by age
  std::map<CUmodule, std::vector<Cubin>> of_module;      // those that a call of the program loaded into a module
  std::map<CUfunction, int> caches;  // the driver does not say again what it was told to prefer
  pid_t pid = 0;
  bool in_graph = false;  // a launch was refused because it was recorded into a graph
};

State& state() {
  static State* only = new State;  // never destroyed: the driver may call while the process ends
  return *only;
}

thread_local bool inside = false;  // calls of this library are not the program's
thread_local std::unique_ptr<Kept> pending;
thread_local std::vector<Cubin> loading;  // what the running call has loaded

std::string demangled(const char* name) {
  if (strncmp(name, "_Z", 2)) return name;  // of extern "C"; `f` alone would be read as a type
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), free);
  return status == 0 && text ? text.get() : name;
}

// The name without its namespaces, template arguments and parameters.
std::string base_name(const std::string& full) {
  std::string text = full.substr(full.rfind("(anonymous namespace)::", 0) == 0 ? 23 : 0);
  size_t end = text.find_first_of("<(");
  if (end == std::string::npos) end = text.size();
  std::string head = text.substr(0, end);
  size_t from = head.find_last_of(": ");
  return from == std::string::npos ? head : head.substr(from + 1);
}

bool found(const regex_t& pattern, const char* name) {
  const std::string full = demangled(name);
  return !regexec(&pattern, base_name(full).c_str(), 0, nullptr, 0) || !regexec(&pattern, full.c_str(), 0, nullptr, 0);
}

bool matches(const char* name) {
  const State& s = state();
  return found(s.wanted, name) && !(s.leaves_out && found(s.unwanted, name));
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\' || c < 0x20 || c > 0x7e)
      snprintf(escaped, sizeof escaped, "\\u%04x", c), out += escaped;
    else
      out += static_cast<char>(c);
  }
  return out + "\"";
}

// What could not be kept is told once per reason: {"kernel": …, "why": …} lines.
void refuse(const std::string& kernel, const std::string& why) {
  FILE* file = fopen((state().folder + "/refused-" + std::to_string(state().pid) + ".jsonl").c_str(), "a");
  if (!file) return;
  fprintf(file, "{\"kernel\": %s, \"why\": %s}\n", quoted(demangled(kernel.c_str())).c_str(),
          quoted(why).c_str());
  fclose(file);
}

std::string error_name(CUresult status) {
  const char* text = nullptr;
  return driver().cuGetErrorName(status, &text) == CUDA_SUCCESS && text ? text : std::to_string(status);
}

// ----- machine code

template <class Each>
void each_symbol(const std::vector<char>& cubin, Each each) {
  if (cubin.size() < sizeof(Elf64_Ehdr)) return;
  auto header = reinterpret_cast<const Elf64_Ehdr*>(cubin.data());
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  if (header->e_shoff + uint64_t(header->e_shnum) * sizeof(Elf64_Shdr) > cubin.size()) return;
  auto sections = reinterpret_cast<const Elf64_Shdr*>(cubin.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++) {
    const Elf64_Shdr& table = sections[i];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
    const Elf64_Shdr& names = sections[table.sh_link];
    if (table.sh_offset + table.sh_size > cubin.size() || names.sh_offset + names.sh_size > cubin.size()) continue;
    auto symbols = reinterpret_cast<const Elf64_Sym*>(cubin.data() + table.sh_offset);
    for (size_t k = 0; k < table.sh_size / sizeof(Elf64_Sym); k++)
      if (symbols[k].st_name < names.sh_size)
        each(symbols[k], cubin.data() + names.sh_offset + symbols[k].st_name);
  }
}

bool holds_function(const std::vector<char>& cubin, const char* name) {
  bool held = false;
  each_symbol(cubin, [&](const Elf64_Sym& symbol, const char* text) {
    held = held || (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF && !strcmp(text, name));
  });
  return held;
}

void module_loaded(const CUpti_ModuleResourceData* data) {
  const auto cubin = std::make_shared<const std::vector<char>>(data->pCubin, data->pCubin + data->cubinSize);
  bool wanted = false;
  each_symbol(*cubin, [&](const Elf64_Sym& symbol, const char* text) {
    if (!wanted && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) wanted = matches(text);
  });
  if (!wanted) return;
  state().cubins.push_back(cubin);
  loading.push_back(cubin);
}

// A call of the program has loaded a module.
void loaded(const LoadArguments* call, bool good) {
  if (good) state().of_module[*call->module] = loading;
  loading.clear();
}

// ----- memory

bool region_of(CUdeviceptr pointer, Region* region) {
  if (pointer < 0x10000) return false;
  unsigned kind = 0, managed = 0;
  CUdeviceptr base = 0;
  size_t size = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&kind, &managed, &base, &size};
  if (driver().cuPointerGetAttributes(4, names, values, pointer) != CUDA_SUCCESS || !kind || !base || !size) return false;
  *region = {base, size, kind, managed != 0};
  return pointer >= base && pointer - base < size;
}

// Adds what the words of `bytes` point to. A number that looks like an address only adds memory that nobody needs.
void add_regions(const char* bytes, size_t size, std::map<CUdeviceptr, Region>* regions, std::vector<Region>* fresh) {
  uint64_t last = 0;
  for (size_t at = 0; at + 8 <= size; at += 8) {
    uint64_t word;
    memcpy(&word, bytes + at, 8);
    if (word == last || word >> 48) continue;  // device addresses have 47 bits
    last = word;
    Region region;
    if (region_of(word, &region) && regions->emplace(region.base, region).second) fresh->push_back(region);
  }
}

struct Staging {
  char* host = nullptr;
  Staging() {
    if (driver().cuMemHostAlloc(reinterpret_cast<void**>(&host), kChunk, 0) != CUDA_SUCCESS) host = nullptr;
  }
  ~Staging() {
    if (host) driver().cuMemFreeHost(host);
  }
};

std::string memory_file(const std::string& folder, const char* kind, CUdeviceptr base) {
  char name[64];
  snprintf(name, sizeof name, "/%s-%012llx.bin", kind, static_cast<unsigned long long>(base));
  return folder + name;
}

bool write_region(const std::string& folder, const Region& region, char* host) {
  FILE* file = fopen(memory_file(folder, "before", region.base).c_str(), "wb");
  if (!file) return false;
  bool good = true;
  for (size_t at = 0; good && at < region.size; at += kChunk) {
    const size_t size = std::min(kChunk, region.size - at);
    good = driver().cuMemcpyDtoH(host, region.base + at, size) == CUDA_SUCCESS && fwrite(host, 1, size, file) == size;
  }
  return fclose(file) == 0 && good;
}

// Keeps the pages of a region that the launch changed: records of a 64-bit offset and up to kPage bytes.
bool write_changes(const std::string& folder, const Region& region, char* host) {
  FILE* before = fopen(memory_file(folder, "before", region.base).c_str(), "rb");
  FILE* after = fopen(memory_file(folder, "after", region.base).c_str(), "wb");
  std::vector<char> old(kChunk);
  bool good = before && after;
  for (size_t at = 0; good && at < region.size; at += kChunk) {
    const size_t size = std::min(kChunk, region.size - at);
    good = driver().cuMemcpyDtoH(host, region.base + at, size) == CUDA_SUCCESS && fread(old.data(), 1, size, before) == size;
    for (size_t page = 0; good && page < size; page += kPage) {
      const size_t length = std::min(kPage, size - page);
      if (!memcmp(host + page, old.data() + page, length)) continue;
      const uint64_t offset = at + page;
      good = fwrite(&offset, 8, 1, after) == 1 && fwrite(host + page, 1, length, after) == length;
    }
  }
  if (before) fclose(before);
  return after && fclose(after) == 0 && good;
}

// ----- one launch

struct Launch {
  std::string name;
  CUfunction function = nullptr;  // never a CUkernel
  CUmodule module = nullptr;
  unsigned grid[3] = {}, block[3] = {}, cluster[3] = {0, 0, 0}, shared = 0;
  bool cooperative = false;
  CUstream stream = nullptr;
  std::vector<char> parameters;
  std::vector<std::pair<size_t, size_t>> layout;  // offset and size of each parameter
  std::string dropped;                             // launch attributes that a launch on its own has no use for
};

bool take_parameters(Launch* launch, void** parameters, void** extra) {
  for (size_t i = 0; i < 4096; i++) {
    size_t offset = 0, size = 0;
    if (driver().cuFuncGetParamInfo(launch->function, i, &offset, &size) != CUDA_SUCCESS) break;
    launch->layout.emplace_back(offset, size);
    launch->parameters.resize(std::max(launch->parameters.size(), offset + size));
    if (parameters) memcpy(launch->parameters.data() + offset, parameters[i], size);
  }
  if (parameters || !extra) return parameters || launch->layout.empty();
  const char* buffer = nullptr;
  size_t size = 0;
  for (void** at = extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const char*>(at[1]);
    if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<size_t*>(at[1]);
  }
  if (!buffer) return launch->layout.empty();
  memcpy(launch->parameters.data(), buffer, std::min(size, launch->parameters.size()));
  return true;
}

void take_attributes(Launch* launch, const CUlaunchConfig* config) {
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      launch->cluster[0] = attribute.value.clusterDim.x, launch->cluster[1] = attribute.value.clusterDim.y;
      launch->cluster[2] = attribute.value.clusterDim.z;
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      launch->cooperative = attribute.value.cooperative != 0;
    } else if (attribute.id != CU_LAUNCH_ATTRIBUTE_IGNORE) {
      launch->dropped += (launch->dropped.empty() ? "" : ", ") + std::to_string(attribute.id);
    }
  }
}

// A handle may be a CUkernel; its function in this context is what has attributes and a module.
CUfunction function_of(CUfunction handle) {
  int value = 0;
  if (driver().cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, handle) == CUDA_SUCCESS) return handle;
  CUfunction function = nullptr;
  return driver().cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(handle)) == CUDA_SUCCESS ? function : nullptr;
}

std::vector<Cubin> holding(const std::vector<Cubin>& cubins, const std::string& name) {
  std::vector<Cubin> different;
  for (const Cubin& cubin : cubins)
    if (holds_function(*cubin, name.c_str()) &&
        std::none_of(different.begin(), different.end(), [&](const Cubin& other) { return *other == *cubin; }))
      different.push_back(cubin);
  return different;
}

// Cubins that hold the launch's function, by age: of its module, where the call that loaded it was seen; else all (the
// modules of a library are loaded when they are first needed).
std::vector<Cubin> cubins_of(const Launch& launch) {
  const auto known = state().of_module.find(launch.module);
  if (known != state().of_module.end()) {
    const std::vector<Cubin> own = holding(known->second, launch.name);
    if (!own.empty()) return own;
  }
  return holding(state().cubins, launch.name);
}

std::vector<Global> globals_of(const Launch& launch, const std::vector<char>& cubin) {
  std::vector<Global> globals;
  each_symbol(cubin, [&](const Elf64_Sym& symbol, const char* text) {
    CUdeviceptr address = 0;
    size_t size = 0;
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || !symbol.st_size) return;
    if (driver().cuModuleGetGlobal(&address, &size, launch.module, text) == CUDA_SUCCESS) globals.push_back({text, address, size});
  });
  return globals;
}

int attribute(const Launch& launch, CUfunction_attribute which) {
  int value = -1;
  return driver().cuFuncGetAttribute(&value, which, launch.function) == CUDA_SUCCESS ? value : -1;
}

std::string three(const unsigned* values) {
  return "[" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " + std::to_string(values[2]) + "]";
}

bool write_bytes(const std::string& path, const void* bytes, size_t size) {
  FILE* file = fopen(path.c_str(), "wb");
  if (!file) return false;
  const bool good = fwrite(bytes, 1, size, file) == size;
  return fclose(file) == 0 && good;
}

std::string write_launch(const std::string& folder, const Launch& launch, const std::map<CUdeviceptr, Region>& regions,
                         const std::vector<Global>& globals, size_t same_name) {
  FILE* file = fopen((folder + "/launch.json").c_str(), "w");
  if (!file) return "the folder cannot be written";
  int device = 0, version = 0;
  char gpu[256] = "";
  driver().cuCtxGetDevice(&device);
  driver().cuDeviceGetName(gpu, sizeof gpu, device);
  driver().cuDriverGetVersion(&version);
  fprintf(file, "{\"schema\": 1, \"function\": %s, \"kernel\": %s,\n", quoted(launch.name).c_str(),
          quoted(demangled(launch.name.c_str())).c_str());
  fprintf(file, " \"grid\": %s, \"block\": %s, \"cluster\": %s, \"shared\": %u, \"cooperative\": %s,\n",
          three(launch.grid).c_str(), three(launch.block).c_str(), three(launch.cluster).c_str(), launch.shared,
          launch.cooperative ? "true" : "false");
  fprintf(file, " \"dropped_attributes\": %s, \"modules_of_that_name\": %zu, \"pid\": %d,\n",
          quoted(launch.dropped).c_str(), same_name, static_cast<int>(state().pid));
  fprintf(file, " \"device\": {\"name\": %s, \"ordinal\": %d, \"cuda\": %d},\n", quoted(gpu).c_str(), device, version);
  fprintf(file, " \"attributes\": {\"registers\": %d, \"local\": %d, \"dynamic_shared\": %d, \"carveout\": %d, ",
          attribute(launch, CU_FUNC_ATTRIBUTE_NUM_REGS), attribute(launch, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
          attribute(launch, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
          attribute(launch, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));
  const auto cache = state().caches.find(launch.function);
  fprintf(file, "\"cache\": %d, ", cache == state().caches.end() ? 0 : cache->second);
  fprintf(file, "\"non_portable_cluster\": %d},\n \"layout\": [",
          attribute(launch, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED));
  const char* comma = "";
  for (const auto& [offset, size] : launch.layout) fprintf(file, "%s[%zu, %zu]", comma, offset, size), comma = ", ";
  fprintf(file, "],\n \"regions\": [");
  comma = "";
  for (const auto& [base, region] : regions) {
    fprintf(file, "%s{\"base\": %llu, \"size\": %zu, \"managed\": %s}", comma,
            static_cast<unsigned long long>(base), region.size, region.managed ? "true" : "false");
    comma = ", ";
  }
  fprintf(file, "],\n \"globals\": [");
  comma = "";
  for (const Global& global : globals) {
    fprintf(file, "%s{\"name\": %s, \"size\": %zu}", comma, quoted(global.name).c_str(), global.size);
    comma = ", ";
  }
  fprintf(file, "]}\n");
  return fclose(file) == 0 ? "" : "the folder cannot be written";
}

// Code and memory of a launch: what is to be copied.
struct Reached {
  std::vector<Cubin> cubins;
  std::vector<Global> globals;
  std::vector<char> variables;  // bytes of the globals, one behind the other
  std::map<CUdeviceptr, Region> regions;
};

// Adds the sizes of `fresh` regions; returns why the launch cannot be kept, "" where it can so far.
std::string add_sizes(const std::vector<Region>& fresh, uint64_t* total) {
  for (const Region& region : fresh) {
    if (region.kind != CU_MEMORYTYPE_DEVICE && !region.managed) return "it works on host memory (pinned or registered)";
    if ((*total += region.size) > state().most)
      return "the memory reachable from its arguments takes more than " + std::to_string(state().most >> 20) + " MiB";
  }
  return "";
}

// Finds what the launch reaches, and reads only what may hold pointers; returns why it cannot be kept.
std::string reach(Launch* launch, Reached* reached) {
  if (driver().cuFuncGetModule(&launch->module, launch->function) != CUDA_SUCCESS) return "the driver does not say its module";
  reached->cubins = cubins_of(*launch);
  if (reached->cubins.empty()) return "its machine code was loaded before the recorder was";
  uint64_t total = 0;
  std::vector<Region> fresh, unread;
  std::vector<char> bytes = launch->parameters;
  const auto follow = [&] {
    fresh.clear();
    add_regions(bytes.data(), bytes.size(), &reached->regions, &fresh);
    unread.insert(unread.end(), fresh.begin(), fresh.end());
    return add_sizes(fresh, &total);
  };
  if (const std::string why = follow(); !why.empty()) return why;
  if (driver().cuCtxSynchronize() != CUDA_SUCCESS) return "an earlier launch of the program failed";
  reached->globals = globals_of(*launch, *reached->cubins.back());
  for (const Global& global : reached->globals) {
    bytes.resize(global.size);
    if (driver().cuMemcpyDtoH(bytes.data(), global.address, global.size) != CUDA_SUCCESS)
      return "a global variable cannot be read";
    reached->variables.insert(reached->variables.end(), bytes.begin(), bytes.end());
    if (const std::string why = follow(); !why.empty()) return why;
  }
  while (!unread.empty()) {
    const Region region = unread.back();
    unread.pop_back();
    if (region.size > kPointersMost) continue;
    bytes.resize(region.size);
    if (driver().cuMemcpyDtoH(bytes.data(), region.base, region.size) != CUDA_SUCCESS) return "memory cannot be read";
    if (const std::string why = follow(); !why.empty()) return why;
  }
  return "";
}

// Copies code, arguments and memory; returns why it could not, "" where it could.
std::string keep(const Launch& launch, const Reached& reached, const std::string& folder, std::vector<Region>* kept) {
  Staging staging;
  if (!staging.host) return "no pinned memory is left to copy through";
  for (const auto& [base, region] : reached.regions) {
    if (!write_region(folder, region, staging.host)) return "memory cannot be read, or the disk is full";
    kept->push_back(region);
  }
  const Cubin& cubin = reached.cubins.back();
  if (!write_bytes(folder + "/globals.bin", reached.variables.data(), reached.variables.size()) ||
      !write_bytes(folder + "/kernel.cubin", cubin->data(), cubin->size()) ||
      !write_bytes(folder + "/parameters.bin", launch.parameters.data(), launch.parameters.size()))
    return "the folder cannot be written";
  return write_launch(folder, launch, reached.regions, reached.globals, reached.cubins.size());
}

// Keeps the launch, or returns why it cannot be kept.
std::string record(Launch* launch, uint64_t number, CUfunction handle, void** parameters, void** extra) {
  launch->function = function_of(handle);
  if (!launch->function) return "the driver does not say its function";
  if (!take_parameters(launch, parameters, extra)) return "its arguments cannot be read";
  Reached reached;
  if (const std::string why = reach(launch, &reached); !why.empty()) return why;
  const std::string folder = state().folder + "/capsule-" + std::to_string(state().pid) + "-" + std::to_string(number);
  if (mkdir(folder.c_str(), 0700) != 0) return "the folder cannot be written";
  std::unique_ptr<Kept> kept(new Kept{folder, {}});
  const std::string why = keep(*launch, reached, folder, &kept->regions);
  if (why.empty()) pending = std::move(kept);
  return why;
}

// A chosen launch that is not kept leaves its place to a later one.
void give_up(const std::string& name, const std::string& why) {
  State& s = state();
  refuse(name, why);
  s.kept--;
  if (++s.refused == kRefusedMost)
    refuse(name, "no more launches are tried after " + std::to_string(kRefusedMost) + " refused ones");
}

void before(Launch* launch, CUfunction handle, void** parameters, void** extra) {
  State& s = state();
  const uint64_t number = s.matched++;
  if (number < s.skip || s.kept >= s.count || s.refused >= kRefusedMost) return;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().cuStreamIsCapturing(launch->stream, &capturing) == CUDA_SUCCESS && capturing != CU_STREAM_CAPTURE_STATUS_NONE) {
    // Nothing is launched here: a later launch outside of graphs may still be kept.
    if (!s.in_graph) refuse(launch->name, "it is captured into a CUDA graph");
    s.in_graph = true;
    return;
  }
  s.kept++;
  if (const std::string why = record(launch, number, handle, parameters, extra); !why.empty()) give_up(launch->name, why);
}

void after(bool launched, const char* name) {
  const std::unique_ptr<Kept> kept = std::move(pending);
  Staging staging;
  const CUresult status = launched ? driver().cuCtxSynchronize() : CUDA_ERROR_LAUNCH_FAILED;
  if (status != CUDA_SUCCESS) return give_up(name, "the launch itself failed: " + error_name(status));
  bool good = staging.host != nullptr;
  for (const Region& region : kept->regions) good = good && write_changes(kept->folder, region, staging.host);
  if (!good) return give_up(name, "memory after the launch cannot be kept");
  write_bytes(kept->folder + "/complete", "", 0);
}

void launching(CUpti_CallbackId which, const CUpti_CallbackData* data) {
  if (!data->symbolName) return;
  const auto [kernel, fresh] = state().launched.try_emplace(data->symbolName, false);
  if (fresh) {
    kernel->second = matches(data->symbolName);
    if (!kernel->second && found(state().wanted, data->symbolName)) refuse(data->symbolName, "it is left out (--without)");
  }
  if (!kernel->second) return;
  Launch launch;
  launch.name = data->symbolName;
  if (which == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx || which == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
    auto call = static_cast<const LaunchExArguments*>(data->functionParams);
    const CUlaunchConfig& config = *call->config;
    const unsigned grid[] = {config.gridDimX, config.gridDimY, config.gridDimZ};
    const unsigned block[] = {config.blockDimX, config.blockDimY, config.blockDimZ};
    memcpy(launch.grid, grid, sizeof grid), memcpy(launch.block, block, sizeof block);
    launch.shared = config.sharedMemBytes, launch.stream = config.hStream;
    take_attributes(&launch, &config);
    return before(&launch, call->function, call->parameters, call->extra);
  }
  auto call = static_cast<const LaunchArguments*>(data->functionParams);
  memcpy(launch.grid, call->grid, sizeof launch.grid), memcpy(launch.block, call->block, sizeof launch.block);
  launch.shared = call->shared, launch.stream = call->stream;
  launch.cooperative = which == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel ||
                       which == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz;
  // A cooperative launch has no `extra`: what stands there belongs to nobody.
  before(&launch, call->function, call->parameters, launch.cooperative ? nullptr : call->extra);
}

constexpr CUpti_CallbackId kCalls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,           CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuFuncSetCacheConfig,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoad,             CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx,       CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary,
    CUPTI_DRIVER_TRACE_CBID_cuModuleUnload};

bool loads_module(CUpti_CallbackId which) {
  return which == CUPTI_DRIVER_TRACE_CBID_cuModuleLoad || which == CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData ||
         which == CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx || which == CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary;
}

void CUPTIAPI heard(void*, CUpti_CallbackDomain domain, CUpti_CallbackId which, const void* data) {
  if (getpid() != state().pid) return;
  std::lock_guard<std::recursive_mutex> hold(state().lock);
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    auto resource = static_cast<const CUpti_ResourceData*>(data);
    if (which == CUPTI_CBID_RESOURCE_MODULE_LOADED)
      module_loaded(static_cast<const CUpti_ModuleResourceData*>(resource->resourceDescriptor));
    return;
  }
  if (inside) return;
  inside = true;
  auto call = static_cast<const CUpti_CallbackData*>(data);
  if (which == CUPTI_DRIVER_TRACE_CBID_cuFuncSetCacheConfig) {
    auto set = static_cast<const CacheArguments*>(call->functionParams);
    if (call->callbackSite == CUPTI_API_EXIT) state().caches[set->function] = set->config;
  } else if (which == CUPTI_DRIVER_TRACE_CBID_cuModuleUnload) {
    // Its handle may become that of another module.
    if (call->callbackSite == CUPTI_API_ENTER)
      state().of_module.erase(static_cast<const UnloadArguments*>(call->functionParams)->module);
  } else if (loads_module(which)) {
    if (call->callbackSite == CUPTI_API_ENTER)
      loading.clear();
    else
      loaded(static_cast<const LoadArguments*>(call->functionParams),
             *static_cast<const CUresult*>(call->functionReturnValue) == CUDA_SUCCESS);
  } else if (call->callbackSite == CUPTI_API_ENTER) {
    launching(which, call);
  } else if (pending) {
    after(*static_cast<const CUresult*>(call->functionReturnValue) == CUDA_SUCCESS, call->symbolName);
  }
  inside = false;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

uint64_t number_of(const char* name) {
  const char* text = getenv(name);
  return text ? strtoull(text, nullptr, 10) : 0;
}

// Whether `text`, if any, is an expression; refuses what is none.
bool compiled(regex_t* pattern, const char* option, const char* text) {
  const std::string extended = replaced(replaced(text ? text : "", "\\d", "[0-9]"), "(?:", "(");
  const int status = regcomp(pattern, extended.c_str(), REG_EXTENDED | REG_NOSUB);
  if (status == 0) return true;
  char why[256];
  regerror(status, pattern, why, sizeof why);
  refuse("", std::string(option) + " is no extended regular expression: " + why);
  return false;
}

}  // namespace

// Called by the driver when the program first uses CUDA; a return of 1 says that all went well.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  static std::atomic<bool> once{false};
  const char* folder = getenv("NCUBBLE_CAPSULES");
  if (once.exchange(true) || !folder) return 1;
  State& s = state();
  s.folder = folder, s.pid = getpid();
  s.skip = number_of("NCUBBLE_CAPSULES_SKIP"), s.count = number_of("NCUBBLE_CAPSULES_COUNT");
  s.most = number_of("NCUBBLE_CAPSULES_BYTES");
  const char* without = getenv("NCUBBLE_CAPSULES_WITHOUT");
  s.leaves_out = without && *without;
  if (!compiled(&s.wanted, "--kernel", getenv("NCUBBLE_CAPSULES_KERNEL")) || !compiled(&s.unwanted, "--without", without))
    return 1;
  if (driver().missing) {
    refuse("", "the driver is older than CUDA 12.4");
    return 1;
  }
  CUpti_SubscriberHandle subscriber;
  CUptiResult status = cuptiSubscribe(&subscriber, heard, nullptr);
  for (CUpti_CallbackId which : kCalls)
    if (status == CUPTI_SUCCESS) status = cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, which);
  if (status == CUPTI_SUCCESS)
    status = cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED);
  if (status != CUPTI_SUCCESS) {
    const char* text = nullptr;
    cuptiGetResultString(status, &text);
    refuse("", std::string("CUPTI cannot be used: ") + (text ? text : "unknown error"));
  }
  return 1;
}
