#include "neurim/model/plugin.h"

#include <dlfcn.h>

#include <mutex>
#include <set>

#include "neurim/base/error.h"

namespace neurim {

namespace {

template <class Function>
Function* function(void* library, const fs::path& path, const char* name) {
  void* found = ::dlsym(library, name);
  require(found, path.string(), ": is no plug-in of Neurim: it has no ", name,
          "; write NEURIM_PLUGIN(FUNCTION) in one of its sources");
  return reinterpret_cast<Function*>(found);
}

}  // namespace

void load_library(const fs::path& path) {
  static std::mutex mutex;
  static auto& loaded = *new std::set<void*>;
  const std::lock_guard lock(mutex);
  require(is_there(path), path.string(), ": there is no such plug-in; check the path");
  void* library = ::dlopen(fs::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  require(library, path.string(), ": the plug-in cannot be loaded: ", library ? "" : ::dlerror());
  if (loaded.contains(library)) return;
  const std::string abi = function<const char*()>(library, path, "neurim_plugin_abi")();
  require(abi == kPluginAbi, path.string(), ": was built for ", abi, ", but this is ", kPluginAbi,
          "; build it again with the headers of this release");
  function<void()>(library, path, "neurim_plugin_define")();
  loaded.insert(library);
}

}  // namespace neurim
