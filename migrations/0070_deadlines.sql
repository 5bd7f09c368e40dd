-- People are told when a feature's deadline passes and it isn't finished.
alter type notice_event add value 'deadline_passed';
