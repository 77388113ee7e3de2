// Public data sets by name. Nothing here runs unless it is asked for.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

/// The SHA-256 of the unpacked files of labels of Fashion-MNIST, which has its classes' names in its README alone.
inline constexpr const char *kFashionTrainLabels = "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                            *kFashionTestLabels = "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34";

/// The names that download knows.
std::vector<std::string> public_sets();

/// Throws what download throws before it fetches anything, also where the mirror is a folder that lacks a
/// file. Gives the places that the files of the set would come from.
std::vector<std::string> check_download(const std::string& name, const std::string& out, const std::string& mirror);

/// Puts the files of a public set into the folder `out`, in a form that Dataset::open reads: the gzipped IDX files of
/// mnist and fashion-mnist, the binary batches of cifar10 and cifar100. They come from the set's publishers by way of
/// the program curl, or from `mirror`: a folder that has the published files (or another folder's name or URL before
/// each). Contents are compared with SHA-256 digests that are part of this program; files that are there already and
/// right are kept. `report` hears of each file. Throws Error(usage) for an unknown name, Error(data) where a file is
/// missing or is not the published one, Error(resource) where it cannot be fetched or written.
void download(const std::string& name, const std::string& out, const std::string& mirror,
              const std::function<void(std::string_view)>& report = {});

}  // namespace neurim
