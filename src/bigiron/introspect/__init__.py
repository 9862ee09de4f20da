"""What an address in a guest's memory is: its types, its allocator, its symbols."""
