"""What the kernel's memory management knows of an address: one module for each file of mm/."""
