"""LeRobot."""
