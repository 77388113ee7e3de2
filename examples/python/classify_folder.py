"""Trains a classifier on a folder of images with one sub-folder for each class, says what it confuses, and exports it.

usage: classify_folder.py FOLDER [MODEL [EPOCHS]]
"""

import sys

import neurim as nm


def main(folder: str, name: str = "resnet20", epochs: str = "10") -> None:
    data = nm.data.open(folder, val_split=0.2, imgsz=32)
    for note in data.notes:
        print(note)
    model = nm.create_model(name, num_classes=data.classes)
    run = model.fit(data, epochs=int(epochs), callbacks=[nm.EarlyStopping("f1_macro", patience=5)])

    report = run.evaluate(split="val")
    print(f"accuracy {report.top1:.3f}, F1 {report.f1_macro:.3f}; {report.page} has all")
    for row in report.per_class:
        print(f"{row['class']}: recall {row['recall']:.3f} of {row['support']} images")
    for mistake in report.mistakes(5):
        print(f"{mistake['file']} is {mistake['label']}, not {mistake['predicted']}")

    art = run.export("onnx")
    answers = nm.load(art.path)
    first, label = data.val[0]
    print(f"{art.path} says of {first}, {label}: {answers.predict(first, topk=2)}")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
