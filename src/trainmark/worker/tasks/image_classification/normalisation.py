"""How real images are normalised, in every framework."""

# Mean and standard deviation of ImageNet's red, green and blue, for values from 0 to 1.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
