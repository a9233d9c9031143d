"""What every framework and every task shares: flags, timing, the base of a training, events, ranks, outcomes."""
