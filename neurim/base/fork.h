// Threads and fork(): a child process has the memory of its parent, but only the thread that forked.
#pragma once

namespace neurim {

/// How many forks lie between the start of the program and this process. Where it has changed, threads that were
/// started before are not here, and locks that they held stay locked.
unsigned forks();

}  // namespace neurim
