"""What a run would have read with other settings, from its recorded page accesses and a model of its buffer manager."""
