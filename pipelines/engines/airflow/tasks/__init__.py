"""What the tasks of a DAG do: the run's beginning and end, a stage as a process or a pod, a question to a person."""
