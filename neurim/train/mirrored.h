// The same training loop on several devices of this machine.
#pragma once
#include <functional>
#include <string>

#include "neurim/core/device.h"
#include "neurim/train/job.h"

namespace neurim {

/// One of the copies of a model that train together: a rank, in a thread of its own, on a device of its own.
class Replica {
 public:
  /// Of a rank of the group, on the device of that name.
  Replica(std::string device, std::shared_ptr<ProcessGroup> group);

  const std::string& device_name() const { return device_; }  ///< as it was given: "cuda:1"
  Device device() const { return device_named(device_); }     ///< where its copy lies and its plans run
  int number() const { return job_.rank(); }                  ///< from 0 on
  int count() const { return job_.size(); }                   ///< how many there are
  const Job& job() const { return job_; }                     ///< for train() and operations of all replicas
  /// Moves the module to the device; its tensors become those of replica 0.
  void mirror(ModuleRef module) const;
  /// From now on, what minimize() records steps with the mean gradient over the samples of all replicas. To be called
  /// before steps are recorded.
  void share_gradients(Optimizer& optimizer) const;
  double sum(double value) const;  ///< over all replicas

 private:
  std::string device_;
  Job job_;
};

/// Runs `body` once for each of the devices, "cuda:0,cuda:1", at the same time: what Keras does in the scope of a
/// MirroredStrategy. All replicas do the same number of steps, each with its samples. What fails in one ends the
/// others; throws the first error. Throws Error(usage) where a device is not known.
void mirrored(const std::string& devices, const std::function<void(const Replica&)>& body);

}  // namespace neurim
