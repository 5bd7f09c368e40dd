-- An attempt that adds files which look like no work is sent back once.
alter type failure add value 'bulk' before 'turn_limit';
