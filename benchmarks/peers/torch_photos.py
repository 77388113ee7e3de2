"""ResNet-18 on a folder of photos with torchvision's parts, for a given time: the script that a careful user would write.

The cosine follows the clock, so that it ends when the time does. Prints one JSON line.
"""
import argparse
import json
import math
import os
import time

import torch
import torchvision
from torch.nn import functional as F
from torchvision.transforms import v2

WARMUP_STEPS, SIZE = 60, 224


def loader(root, changes, **options):
    normalise = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True),
                 v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    images = torchvision.datasets.ImageFolder(root, v2.Compose(changes + normalise))
    return torch.utils.data.DataLoader(images, 32, num_workers=1, persistent_workers=True, **options)


def accuracy(model, batches):
    right = 0
    model.eval()
    with torch.inference_mode():
        for images, labels in batches:
            right += (model(images.contiguous(memory_format=torch.channels_last)).argmax(1) == labels).sum().item()
    model.train()
    return right / len(batches.dataset)


def main():
    start = time.monotonic()
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.0125)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    a = parser.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    split = next(name for name in ("validation", "val") if os.path.isdir(os.path.join(a.data, name)))
    train = loader(os.path.join(a.data, "train"), [v2.RandomResizedCrop(SIZE, scale=(0.35, 1)), v2.RandomHorizontalFlip()],
                   shuffle=True, drop_last=True)
    evaluate = loader(os.path.join(a.data, split), [v2.Resize(SIZE * 8 // 7), v2.CenterCrop(SIZE)])
    model = torchvision.models.resnet18(num_classes=len(train.dataset.classes)).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, nesterov=True, weight_decay=a.weight_decay, fused=True)

    best, epochs, steps = 0.0, 0, 0
    while time.monotonic() - start < a.seconds:
        for images, labels in train:
            share = (time.monotonic() - start) / a.seconds
            if share >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = a.lr * min(1, (steps + 1) / WARMUP_STEPS) * (1 + math.cos(math.pi * share)) / 2
            loss = F.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels, label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            steps += 1
        epochs += 1
        best = max(best, accuracy(model, evaluate))
    print(json.dumps({"top1": best, "epochs": epochs, "steps": steps, "seconds": time.monotonic() - start}))


if __name__ == "__main__":
    main()
