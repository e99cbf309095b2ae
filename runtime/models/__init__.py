"""From a model to named layers: ONNX files, PyTorch modules, torchvision's models by name."""
