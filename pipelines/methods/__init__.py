"""Published methods: which there are, how they differ, and what their reproduction found."""
