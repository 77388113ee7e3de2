// Preloaded into a program: from its allocation number FAIL_MALLOC on, counted from 1, it gets 1 MiB and what it gives
// back, as at a limit. At the end a line on stderr says how many allocations there were and how many of them failed.
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<long> count{0}, failed{0};
std::atomic<long> room{1 << 20};  // bytes that are left at that allocation, as at the top of a heap, and since
const char* const asked = std::getenv("FAIL_MALLOC");
const long first = asked ? std::atol(asked) : 0;

bool limited() { return first > 0 && count.load(std::memory_order_relaxed) >= first; }

bool fails(std::size_t bytes) {
  ++count;
  if (!limited()) return false;
  if (room.fetch_sub(static_cast<long>(bytes)) >= static_cast<long>(bytes)) return false;
  room += static_cast<long>(bytes);
  ++failed;
  errno = ENOMEM;
  return true;
}

struct Report {
  ~Report() {
    char line[80];
    const int size = std::snprintf(line, sizeof line, "fail_malloc: %ld allocations, %ld failed\n", count.load(),
                                   failed.load());
    if (size > 0) (void)!::write(STDERR_FILENO, line, static_cast<std::size_t>(size));
  }
} report;

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void free(void* memory) {
  if (memory && limited()) room += static_cast<long>(malloc_usable_size(memory));
  __libc_free(memory);
}
void* malloc(std::size_t bytes) { return fails(bytes) ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t items, std::size_t bytes) {
  return fails(items * bytes) ? nullptr : __libc_calloc(items, bytes);
}
void* realloc(void* from, std::size_t bytes) { return fails(bytes) ? nullptr : __libc_realloc(from, bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return fails(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** to, std::size_t alignment, std::size_t bytes) {
  if (fails(bytes)) return ENOMEM;
  *to = __libc_memalign(alignment, bytes);
  return *to ? 0 : ENOMEM;
}
}
