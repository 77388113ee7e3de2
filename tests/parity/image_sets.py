"""Labelled images as NumPy arrays: images f32 (N,C,H,W) of about mean 0 and std 1, labels i64 (N)."""
import gzip
import io
import os
import tarfile

import numpy as np


def read_idx(path):
    """An array of bytes from an IDX file, packed by gzip or not."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    if data[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: no IDX file of bytes")
    axes = data[3]
    shape = np.frombuffer(data, ">u4", axes, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def idx_split(folder, prefix):
    """Images (N,H,W) as bytes and labels of one split; prefix: train or t10k."""
    def part(name):
        path = os.path.join(folder, f"{prefix}-{name}-ubyte")
        return read_idx(path if os.path.exists(path) else path + ".gz")

    return part("images-idx3"), part("labels-idx1").astype(np.int64)


def from_idx(folder, count):
    images, labels = idx_split(folder, "train")
    return (images[:count, None].astype(np.float32) / 255 - 0.3) / 0.35, labels[:count]


def from_tar(path, count, size):
    """Photos of an archive of SPLIT/CLASS/*.jpg in an order that mixes the classes, scaled to size x size."""
    from PIL import Image

    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".jpg")]
        classes = sorted({member.name.split("/")[-2] for member in members})
        order = np.random.default_rng(0).permutation(len(members))
        images, labels = [], []
        for member in sorted((members[i] for i in order[:count]), key=lambda member: member.offset):
            photo = Image.open(io.BytesIO(archive.extractfile(member).read())).convert("RGB")
            images.append(np.asarray(photo.resize((size, size)), np.float32).transpose(2, 0, 1) / 127.5 - 1)
            labels.append(classes.index(member.name.split("/")[-2]))
    order = np.random.default_rng(1).permutation(len(images))
    return np.stack(images)[order], np.asarray(labels, np.int64)[order]


def drawn(count, channels, size, classes=10):
    """Noise over one pattern for each class: something to learn where no data are at hand."""
    random = np.random.default_rng(0)
    patterns = random.standard_normal((classes, channels, size, size), np.float32)
    labels = random.integers(0, classes, count)
    noise = random.standard_normal((count, channels, size, size), np.float32)
    return patterns[labels] + 0.5 * noise, labels
