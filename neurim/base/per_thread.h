// Objects that each thread has one of.
#pragma once

namespace neurim {

/// The calling thread's T, made at its first use and destroyed when the thread ends. A destructor that runs later, as
/// those of static objects do after main, gets one that is never destroyed.
template <class T>
T& per_thread() {
  thread_local T* own = nullptr;  // can be read at any time: it has no destructor
  struct Owner {
    ~Owner() {
      delete own;
      own = nullptr;
    }
  };
  thread_local Owner owner;
  if (!own) own = new T;
  return *own;
}

}  // namespace neurim
