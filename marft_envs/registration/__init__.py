"""Registration of environments by id, `make`, the environments of the suite, and plugins."""
