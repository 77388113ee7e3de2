"""One way to turn JPEG files into training batches (random resized crop to 224, flip, normalised f32 NCHW, batches of 64).

    data_loaders.py PEER --data DIR --seconds S --threads T      (PEER: dali, pillow, pillow_draft, torchvision)

DIR has one folder a class. pillow_draft decodes files at the least of 1/2, 1/4 and 1/8 that still covers 256 x 256. Prints
one JSON line with the images per second of a window, after a warm-up.
"""
import argparse
import itertools
import json
import os
import time

SIZE, DRAFT, BATCH, MEAN, STD = 224, 256, 64, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
WARM_UP_BATCHES = 10


def files_in(root):
    found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
    return sorted(path for path in found if path.lower().endswith((".jpg", ".jpeg")))


def dali(paths, threads):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, seed=0)
    def pipeline():
        encoded, label = fn.readers.file(files=paths, labels=[0] * len(paths), random_shuffle=True)
        images = fn.decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0],
                                               random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, size=[SIZE, SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mirror=fn.random.coin_flip(),
                                        mean=[255 * m for m in MEAN], std=[255 * s for s in STD]), label

    pipe = pipeline()
    pipe.build()
    return (pipe.run() for _ in itertools.count())


def torch_loader(paths, threads, decoder):
    import torch
    from PIL import Image
    from torchvision import io
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    crop = [v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()]
    normalise = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]

    class Files(torch.utils.data.Dataset):
        change = v2.Compose(crop + ([] if decoder == "torchvision" else [v2.PILToTensor()]) + normalise)

        def __len__(self):
            return len(paths)

        def __getitem__(self, i):
            if decoder == "torchvision":
                return self.change(io.decode_jpeg(io.read_file(paths[i]), mode=io.ImageReadMode.RGB)), 0
            image = Image.open(paths[i])
            if decoder == "pillow_draft":
                image.draft("RGB", (DRAFT, DRAFT))
            return self.change(image.convert("RGB")), 0

    loader = torch.utils.data.DataLoader(Files(), BATCH, shuffle=True, drop_last=True, num_workers=threads,
                                         persistent_workers=True, prefetch_factor=4)
    return itertools.chain.from_iterable(loader for _ in itertools.count())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=["dali", "pillow", "pillow_draft", "torchvision"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    paths = files_in(a.data)
    batches = dali(paths, a.threads) if a.peer == "dali" else torch_loader(paths, a.threads, a.peer)
    for _ in range(WARM_UP_BATCHES):
        next(batches)
    images, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < a.seconds:
        next(batches)
        images += BATCH
    print(json.dumps({"images_per_second": images / (time.perf_counter() - begin)}), flush=True)
    os._exit(0)  # without waiting for workers


if __name__ == "__main__":
    main()
