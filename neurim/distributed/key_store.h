// The key store of horovodrun, by which its processes find each other.
#pragma once
#include <string>

#include "neurim/distributed/socket.h"

namespace neurim {

/// Values by keys at a server that understands HTTP's PUT and GET of /scope/key, as horovodrun's does (Horovod 0.28,
/// runner/http/http_server.py). Throws Error(failure) where nobody answers.
class KeyStore {
 public:
  explicit KeyStore(std::string address) : address_(std::move(address)) {}  ///< "host:port"
  void put(const std::string& key, const std::string& value, Deadline deadline) const;
  std::string get(const std::string& key, Deadline deadline) const;  ///< waits until it is there
  /// The address of this machine from which the store is reached.
  std::string local_host(Deadline deadline) const;

 private:
  Socket connect(Deadline deadline) const;
  std::string answer(const std::string& request, int& status, Deadline deadline) const;
  const std::string address_;
};

}  // namespace neurim
